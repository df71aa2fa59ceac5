// The backward of a phase of a GAN computes no gradients for the weights of a player (a network) that the phase does
// not train. The results have the same bits as with these gradients.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/excluded_leaves.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/recompute.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/group_norm.h"
#include "binade/nn/linear.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

struct Net : nn::Module {
  nn::Linear in, out;
  Net(std::int64_t from, std::int64_t to) : in({.in = from, .out = 8}), out({.in = 8, .out = to}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(relu(in(x))); }
};

/// Counts the backward calls of each module's linear op, and the gradients of its input and weights that they computed.
class Backwards final : public TapeObserver {
 public:
  struct Count {
    int calls = 0, inputs = 0, weights = 0;
    bool operator==(const Count&) const = default;
  };
  void after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                      const Observation&) override {
    if (std::string_view(call.info.name) != "linear") return;
    Count& count = counts_[std::string(call.module_path)];
    ++count.calls;
    count.inputs += gx[0].defined() ? 1 : 0;
    for (const Tensor& gradient : gx.subspan(1)) count.weights += gradient.defined() ? 1 : 0;
  }
  Count of(const std::string& module) const {
    const auto found = counts_.find(module);
    return found == counts_.end() ? Count{} : found->second;
  }

 private:
  std::map<std::string, Count> counts_;
};

using Weights = std::vector<std::vector<float>>;
void add_weights(Weights& weights, nn::Module& model) {
  for (const auto& [name, parameter] : nn::named_parameters(model))
    weights.push_back(parameter->value().to_vector<float>());
}

/// A least-squares GAN whose critic's loss does not detach the maker's output.
struct Game {
  explicit Game(const Policy& policy = Policy::fp32())
      : trainer(runtime, {{"critic", critic}, {"maker", maker}},
                {{"critic", critic_optimizer}, {"maker", maker_optimizer}}, {.precision = policy}) {}
  Variable critic_loss(const Tensor& x) {
    const Variable made = critic(maker(x)), real = critic(x * 2.0) + -1.0;
    return mean(made * made) + mean(real * real);
  }
  Variable maker_loss(const Tensor& x) { return mean(square(critic(maker(x)) + -1.0)); }
  StepResult step(std::uint32_t k) {
    return trainer.step(toy::random({8, 4}, k),
                        Phases(phase(critic_optimizer, [this](const Tensor& x) { return critic_loss(x); }),
                               phase(maker_optimizer, [this](const Tensor& x) { return maker_loss(x); })));
  }
  Weights weights() {
    Weights all;
    add_weights(all, critic);
    add_weights(all, maker);
    return all;
  }

  Runtime runtime{{.seed = 3}};
  Net critic{4, 1}, maker{4, 4};
  optim::Adam critic_optimizer{critic, {.lr = 1e-2}}, maker_optimizer{maker, {.lr = 1e-2}};
  Trainer trainer;
};

TEST(FrozenPlayers, GetNoGradientsOfWeights) {
  Game game;
  Backwards backwards;
  const ObserverScope watching(backwards);
  EXPECT_TRUE(game.step(0).committed);
  // The critic runs twice in its own phase and once in the maker's phase, which needs only the gradient of the critic's
  // input. In the critic's phase, the maker runs forward only.
  EXPECT_EQ(backwards.of("critic.out"), (Backwards::Count{.calls = 3, .inputs = 3, .weights = 2 * 2}));
  EXPECT_EQ(backwards.of("critic.in").calls, 3);
  EXPECT_EQ(backwards.of("critic.in").weights, 2 * 2);
  EXPECT_EQ(backwards.of("critic.in").inputs, 1);
  EXPECT_EQ(backwards.of("maker.out"), (Backwards::Count{.calls = 1, .inputs = 1, .weights = 2}));
  EXPECT_EQ(backwards.of("maker.in"), (Backwards::Count{.calls = 1, .inputs = 0, .weights = 2}));
}

/// In the hand-written loop, every backward computes all gradients.
TEST(FrozenPlayers, TrainToTheBitsOfAHandWrittenLoop) {
  Weights by_trainer, by_hand;
  {
    Game game;
    for (std::uint32_t k = 0; k < 10; ++k) EXPECT_TRUE(game.step(k).committed);
    by_trainer = game.weights();
  }
  Game game;
  for (std::uint32_t k = 0; k < 10; ++k) {
    const Tensor x = toy::random({8, 4}, k);
    for (const bool critic : {true, false}) {
      game.critic_optimizer.zero_grad();
      game.maker_optimizer.zero_grad();
      backward(critic ? game.critic_loss(x) : game.maker_loss(x));
      critic ? game.critic_optimizer.step() : game.maker_optimizer.step();
    }
  }
  by_hand = game.weights();
  EXPECT_EQ(by_trainer, by_hand);
}

TEST(FrozenPlayers, StillHaveGradientsForTheClosure) {
  Game game;
  double slope = 0;
  const auto loss = [&](const Tensor& x) {
    const Variable result = game.maker_loss(x);
    slope = sum(square(grad(result, game.critic.out.weight, {.retain_graph = true}))).item();
    return result;
  };
  EXPECT_TRUE(game.trainer.step(toy::random({8, 4}, 1), Phases(phase(game.maker_optimizer, loss))).committed);
  EXPECT_GT(slope, 0);
}

/// In a recomputed segment, the graph does not show which parameters are read.
TEST(FrozenPlayers, MayBeRecomputed) {
  const auto train = [](bool recomputes) {
    Game game;
    const auto critic = [&](const Variable& x) {
      return recomputes ? recompute([&](const Variable& y) { return game.critic(y); }, x) : game.critic(x);
    };
    const auto maker = [&](const Variable& x) {
      return recomputes ? recompute([&](const Variable& y) { return game.maker(y); }, x) : game.maker(x);
    };
    for (std::uint32_t k = 0; k < 5; ++k)
      EXPECT_TRUE(
          game.trainer
              .step(toy::random({8, 4}, k),
                    Phases(phase(game.critic_optimizer,
                                 [&](const Tensor& x) {
                                   return mean(square(critic(maker(x)))) + mean(square(critic(Variable(x)) + -1.0));
                                 }),
                           phase(game.maker_optimizer,
                                 [&](const Tensor& x) { return mean(square(critic(maker(Variable(x))) + -1.0)); })))
              .committed);
    return game.weights();
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(FrozenPlayers, IncludeModelsWithoutAnOptimizer) {
  Runtime runtime({.seed = 4});
  Net judge(4, 1), maker(4, 4);
  optim::Adam optimizer(maker, {.lr = 1e-2});
  Trainer trainer(runtime, {{"judge", judge}, {"maker", maker}}, {{"maker", optimizer}});
  Backwards backwards;
  const ObserverScope watching(backwards);
  for (std::uint32_t k = 0; k < 3; ++k)
    EXPECT_TRUE(
        trainer.step(toy::random({8, 4}, k), [&](const Tensor& x) { return mean(square(judge(maker(x)) + -1.0)); })
            .committed);
  EXPECT_EQ(backwards.of("judge.out"), (Backwards::Count{.calls = 3, .inputs = 3, .weights = 0}));
  EXPECT_EQ(backwards.of("maker.out").weights, 3 * 2);
}

/// Pre-flight computes the same gradients as a step, and leaves none of them in the parameters.
TEST(FrozenPlayers, AreFrozenInPreflight) {
  Game game;
  Backwards backwards;
  const ObserverScope watching(backwards);
  game.trainer.preflight(toy::random({8, 4}, 1),
                         Phases(phase(game.critic_optimizer, [&](const Tensor& x) { return game.critic_loss(x); }),
                                phase(game.maker_optimizer, [&](const Tensor& x) { return game.maker_loss(x); })));
  EXPECT_EQ(backwards.of("critic.out"), (Backwards::Count{.calls = 3, .inputs = 3, .weights = 2 * 2}));
  EXPECT_EQ(backwards.of("maker.out"), (Backwards::Count{.calls = 1, .inputs = 1, .weights = 2}));
  for (nn::Module* model : {static_cast<nn::Module*>(&game.critic), static_cast<nn::Module*>(&game.maker)})
    for (const auto& [name, parameter] : nn::named_parameters(*model))
      EXPECT_FALSE(parameter->grad().defined()) << name;
}

/// If all leaves of a loss are excluded, backward runs no op.
TEST(ExcludedLeaves, OfAWholeGraphAreNotVisited) {
  Runtime runtime({.seed = 5});
  nn::Linear layer({.in = 4, .out = 1});
  std::vector<std::shared_ptr<Variable::State>> leaves;
  for (const auto& [name, parameter] : nn::named_parameters(layer)) leaves.push_back(parameter->state());
  int calls = 0;
  struct Count final : TapeObserver {
    explicit Count(int& count) : calls(count) {}
    void after_backward(const OpCall&, std::span<const Tensor>, std::span<const Tensor>, const Observation&) override {
      ++calls;
    }
    int& calls;
  } observer(calls);
  const Variable loss = mean(layer(toy::random({8, 4}, 1)));
  const ObserverScope watching(observer);
  const ExcludedLeaves sparing(leaves);
  backward(loss);
  EXPECT_EQ(calls, 0);
}

/// After a failed step, no parameter is excluded from gradients any more.
TEST(FrozenPlayers, AreFreeAgainAfterAnError) {
  Game game;
  EXPECT_THROW(game.trainer.step(toy::random({8, 4}, 1), Phases(phase(game.critic_optimizer,
                                                                      [&](const Tensor& x) {
                                                                        const Variable hooked = game.critic(x);
                                                                        const HookHandle hook = hooked.register_hook(
                                                                            [](const Variable&) {
                                                                              throw ShapeError("hook: wanted 1, got 2");
                                                                            });
                                                                        return mean(hooked);
                                                                      }))),
               ShapeError);
  for (nn::Module* model : {static_cast<nn::Module*>(&game.critic), static_cast<nn::Module*>(&game.maker)})
    for (const auto& [name, parameter] : nn::named_parameters(*model))
      EXPECT_FALSE(NeededGradients::is_excluded(parameter->state().get())) << name;
}

// ---- backward without some leaves ---------------------------------------------------------------

/// Some ops compute the gradients of several inputs together. If some inputs are excluded, the gradients of the others
/// must keep their bits.
TEST(ExcludedLeaves, KeepTheBitsOfTheOtherGradients) {
  Runtime runtime({.seed = 5});
  for (const std::string policy : {"fp32", "bf16"}) {
    nn::Conv2d conv({.in = 3, .out = 8, .kernel = 3, .padding = 1});
    nn::GroupNorm norm({.groups = 2, .channels = 8});
    nn::Linear head({.in = 8, .out = 4, .activation = Activation::kGelu}), last({.in = 4, .out = 1});
    const Variable x(toy::random({2, 6, 6, 3}, 1), true);
    nn::Module* const layers[] = {&conv, &norm, &head, &last};
    const auto gradients = [&](unsigned excluded) {
      std::vector<std::shared_ptr<Variable::State>> leaves;
      for (std::size_t i = 0; i < 4; ++i)
        for (const auto& [name, parameter] : nn::named_parameters(*layers[i])) {
          parameter->zero_grad();
          if (excluded >> i & 1u) leaves.push_back(parameter->state());
        }
      Variable(x).zero_grad();
      const PolicyScope scope(Policy::by_name(policy));
      const Variable loss = mean(square(last(head(norm(conv(x)) * 0.5 + conv(x)))));
      const ExcludedLeaves sparing(leaves);
      backward(loss);
      std::vector<std::vector<float>> found = {x.grad().to_vector<float>()};
      for (nn::Module* layer : layers)
        for (const auto& [name, parameter] : nn::named_parameters(*layer)) {
          const Tensor gradient = parameter->grad();
          found.push_back(gradient.defined() ? gradient.to_vector<float>() : std::vector<float>());
        }
      return found;
    };
    const auto all = gradients(0);
    for (unsigned excluded = 1; excluded < 16; ++excluded) {
      const auto some = gradients(excluded);
      std::size_t at = 1;
      EXPECT_EQ(some[0], all[0]) << policy << " " << excluded;
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t k = 0; k < nn::named_parameters(*layers[i]).size(); ++k, ++at)
          if (excluded >> i & 1u)
            EXPECT_TRUE(some[at].empty());
          else
            EXPECT_EQ(some[at], all[at]) << policy << " " << excluded << " " << i;
    }
  }
}

}  // namespace
}  // namespace binade::amp
