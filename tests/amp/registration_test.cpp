#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/step/callback.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/recompute.h"
#include "binade/nn/dropout.h"
#include "tests/amp/toy.h"
#include "tests/error_text.h"

/// The registrations that the first step of a trainer accepts or refuses (decision 0059). tests/mistakes has the texts
/// of the errors.
namespace binade::amp {
namespace {

using test::error_of;
using toy::Batch;

/// Two layers. `second` can run in a recomputed segment.
struct Pair : nn::Module {
  nn::Linear first{{.in = 4, .out = 8}}, second{{.in = 8, .out = 2}};
  bool recomputes = false, forgets = false;
  void visit(nn::Visitor& v) override {
    v("first", first);
    if (!forgets) v("second", second);
  }
  Variable forward(const Variable& x) override {
    const Variable h = first(x);
    return recomputes ? recompute([this](const Variable& y) { return second(y); }, h) : second(h);
  }
};

auto loss_of(nn::Module& model) {
  return [&model](const Batch& b) { return mse(model(b.x), Variable(b.target)); };
}

template <class MakeOptimizer>
std::string first_step(Pair& model, MakeOptimizer&& make) {
  optim::Adam optimizer = make(model);
  Runtime& runtime = Runtime::current();
  return error_of([&] {
    Trainer trainer(runtime, model, optimizer);
    trainer.step(toy::batch(1), loss_of(model));
  });
}

class Registered : public testing::Test {
 protected:
  Runtime runtime{{.seed = 1, .threads = 1}};
};

TEST_F(Registered, AFrozenPartOfTheModelIsFine) {
  Pair model;
  model.first.requires_grad(false);
  const std::vector<float> before = model.first.weight.value().to_vector<float>();
  EXPECT_EQ(first_step(model, [](Pair& m) { return optim::Adam(m); }), "no error");
  EXPECT_EQ(model.first.weight.value().to_vector<float>(), before);
  EXPECT_FALSE(model.first.weight.grad().defined());
  EXPECT_TRUE(model.second.weight.grad().defined());
}

TEST_F(Registered, AParameterInsideARecomputedSegmentIsSeen) {
  Pair model;
  model.recomputes = true;
  EXPECT_EQ(first_step(model, [](Pair& m) { return optim::Adam(m); }), "no error");
  const std::string text = first_step(model, [](Pair& m) { return optim::Adam(m.first); });
  EXPECT_NE(text.find("second."), text.npos) << text;
  EXPECT_NE(text.find("no optimizer holds it"), text.npos) << text;
}

TEST_F(Registered, ARefusedStepLeavesNoTrace) {
  Pair model;
  optim::Adam optimizer(model.first);
  Trainer trainer(runtime, model, optimizer);
  const std::string before = trainer.state_hash();
  EXPECT_NE(error_of<ArgumentError>([&] { trainer.step(toy::batch(1), loss_of(model)); }), "no error");
  EXPECT_EQ(trainer.state_hash(), before);
  EXPECT_EQ(trainer.steps(), 0);
  model.second.requires_grad(false);  // after this remedy, the same trainer works
  EXPECT_TRUE(trainer.step(toy::batch(1), loss_of(model)).committed);
}

/// A model that writes a buffer that its visit() does not name.
struct Counting : Pair {
  nn::Buffer calls{Tensor::zeros({1})};
  Variable forward(const Variable& x) override {
    calls.writable().mutable_data<float>()[0] += 1;
    return Pair::forward(x);
  }
};

TEST_F(Registered, ABufferWithoutANameIsFoundAlsoIfAnEarlierRunHasWrittenIt) {
  Counting model;
  optim::Adam optimizer(model);
  Trainer trainer(runtime, model, optimizer);
  trainer.preflight(toy::batch(1), loss_of(model));
  EXPECT_FALSE(model.calls.pending());
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_NE(error_of<ArgumentError>([&] { trainer.step(toy::batch(1), loss_of(model)); }).find("wrote a buffer"),
              std::string::npos);
    EXPECT_FALSE(model.calls.pending());
    EXPECT_EQ(model.calls.value().item(), 0);
  }
}

/// To find the op that uses the parameter, the loss is computed a second time. An error there (no tape for grad(),
/// refused data) must not replace the first error.
TEST_F(Registered, AnErrorInTheSearchForThePlaceDoesNotReplaceTheOther) {
  const auto penalty = [](Pair& model, const Batch& b) {
    const Variable x(b.x, true), y = model(x);
    return mse(y, Variable(b.target)) + mean(square(grad(sum(y), x, {.create_graph = true})));
  };
  for (const bool refuses_data : {false, true}) {
    Pair model;
    optim::Adam optimizer(model.first);
    Trainer trainer(runtime, model, optimizer);
    int calls = 0;
    const std::string text = error_of<Error>([&] {
      trainer.step(toy::batch(1), [&](const Batch& b) {
        if (++calls > 1 && refuses_data) throw DataError("read once");
        return penalty(model, b);
      });
    });
    EXPECT_EQ(calls, 2);
    EXPECT_NE(text.find("second."), text.npos) << text;
    EXPECT_NE(text.find("no optimizer holds it"), text.npos) << text;
  }
}

/// The parameters of one optimizer get gradients from one micro-batch only, which some runs leave out.
TEST_F(Registered, OnlyWholeStepsAreChecked) {
  struct Part {
    Batch batch{};
    bool both = false;
    double factor = 1;
  };
  const Part of_first{toy::batch(1)}, of_both{toy::batch(2), true}, bad{toy::batch(2), true, std::nan("")};
  const auto step = [&](const std::vector<Part>& parts, const TrainerOptions& options) {
    Pair model;
    optim::Adam first(model.first), second(model.second);
    Trainer trainer(runtime, model, {{"first", first}, {"second", second}}, options);
    return trainer.step(MicroBatches<Part>{parts}, [&](const Part& part) {
      const Variable h = model.first(part.batch.x);
      return mean(part.both ? model.second(h) : h) * part.factor;
    });
  };
  EXPECT_TRUE(step({of_first, of_both}, {.verify_every = 1}).verified);
  EXPECT_EQ(step({of_first, bad}, {.on_nan = OnNan::kSkip}).left_out, std::vector<int>{1});
  EXPECT_NE(error_of<ArgumentError>([&] {
              step({of_first, of_first}, {});
            }).find("depends on none of the 2 parameters"),
            std::string::npos);
}

TEST_F(Registered, TheGradientOfAnInputIsFine) {
  Pair model;
  optim::Adam optimizer(model);
  Trainer trainer(runtime, model, optimizer);
  for (std::uint32_t k = 1; k <= 4; ++k) {
    const StepResult result = trainer.step(toy::batch(k), [&](const Batch& b) {
      const Variable x(b.x, true);
      return mse(model(x), Variable(b.target));
    });
    EXPECT_TRUE(result.committed);
    EXPECT_TRUE(result.warnings.empty());
  }
}

TEST_F(Registered, TwoTrainersMayShareANetworkThatOneOfThemTrains) {
  Pair maker;
  nn::Linear critic({.in = 2, .out = 2});
  optim::Adam maker_optimizer(maker), critic_optimizer(critic);
  Trainer makes(runtime, maker, maker_optimizer), judges(runtime, critic, critic_optimizer);
  EXPECT_TRUE(
      makes.step(toy::batch(1), [&](const Batch& b) { return mse(critic(maker(b.x)), Variable(b.target)); }).committed);
  EXPECT_TRUE(
      judges.step(toy::batch(1), [&](const Batch& b) { return mse(critic(maker(b.x).detach()), Variable(b.target)); })
          .committed);
}

TEST_F(Registered, AModelThatIsListedWithoutAnOptimizerIsFrozen) {
  Pair student;
  nn::Linear judge({.in = 2, .out = 2});
  optim::Adam optimizer(student);
  Trainer trainer(runtime, {{.name = "student", .model = student}, {.name = "judge", .model = judge}},
                  {{.name = "student", .optimizer = optimizer}});
  EXPECT_TRUE(trainer.step(toy::batch(1), [&](const Batch& b) { return mse(judge(student(b.x)), Variable(b.target)); })
                  .committed);
}

TEST_F(Registered, PhasesMayReachTheParametersOfOtherPhases) {
  Pair maker;
  nn::Linear critic({.in = 2, .out = 2});
  optim::Adam maker_optimizer(maker), critic_optimizer(critic);
  Trainer trainer(runtime, {{.name = "maker", .model = maker}, {.name = "critic", .model = critic}},
                  {{.name = "maker", .optimizer = maker_optimizer}, {.name = "critic", .optimizer = critic_optimizer}});
  const auto loss = [&](const Batch& b) { return mse(critic(maker(b.x)), Variable(b.target)); };
  EXPECT_TRUE(
      trainer.step(toy::batch(1), Phases(phase(critic_optimizer, loss), phase(maker_optimizer, loss))).committed);
  EXPECT_TRUE(maker.first.weight.grad().defined());
  EXPECT_FALSE(critic.weight.grad().defined());  // the last phase computes none
}

TEST_F(Registered, AnOptimizerThatNoLongerExistsHoldsNothing) {
  Pair model;
  { const optim::Adam first(model); }
  const std::string text = first_step(model, [](Pair& m) { return optim::Adam(m.first); });
  EXPECT_NE(text.find("no optimizer holds it"), text.npos) << text;
}

// ---- gradients after a step ---------------------------------------------------------------------

/// The gradient of the mean loss over `batches` in f32.
std::vector<float> reference(Pair& model, const std::vector<Batch>& batches) {
  std::vector<double> sum(static_cast<std::size_t>(model.second.weight.value().numel()));
  for (const Batch& b : batches) {
    model.second.weight.zero_grad();
    backward(loss_of(model)(b));
    const std::vector<float> g = model.second.weight.grad().to_vector<float>();
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += static_cast<double>(g[i]) / static_cast<double>(batches.size());
  }
  for (auto& [name, parameter] : nn::named_parameters(model)) parameter->zero_grad();
  return {sum.begin(), sum.end()};
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i])));
}

TEST_F(Registered, GradientsCanBeReadWithoutTheLossScaleAfterAStep) {
  Pair model;
  optim::Adam optimizer(model);
  Trainer trainer(runtime, model, optimizer, {.loss_scale = LossScaleOptions::fixed(4096), .clip_norm = 1e-3});
  const std::vector<Batch> batches = {toy::batch(1), toy::batch(2), toy::batch(3)};
  const std::vector<float> wanted = reference(model, batches);
  EXPECT_TRUE(trainer.step(MicroBatches<Batch>{batches}, loss_of(model)).committed);
  expect_near(model.second.weight.grad().to_vector<float>(), wanted);
  expect_near(model.second.weight.grad().to_vector<float>(), wanted);  // not divided twice
}

TEST_F(Registered, TheNextStepAndABackwardOverwriteThem) {
  Pair model;
  optim::Adam optimizer(model);
  Trainer trainer(runtime, model, optimizer, {.loss_scale = LossScaleOptions::fixed(4096)});
  trainer.step(toy::batch(1), loss_of(model));
  const std::vector<float> wanted = reference(model, {toy::batch(2)});
  trainer.step(toy::batch(1), loss_of(model));
  const std::vector<float> then = reference(model, {toy::batch(2)});
  trainer.step(toy::batch(2), loss_of(model));
  expect_near(model.second.weight.grad().to_vector<float>(), then);
  const std::vector<float> now = reference(model, {toy::batch(3)});  // zero_grad() precedes its backward
  trainer.step(toy::batch(3), loss_of(model));
  backward(loss_of(model)(toy::batch(3)) * 0.0);  // no zero_grad() is needed: it replaces the gradients of the step
  for (const float g : model.second.weight.grad().to_vector<float>()) EXPECT_EQ(g, 0);
  EXPECT_NE(wanted, then);
  EXPECT_NE(now, then);
}

TEST_F(Registered, AStepThatDoesNotCommitLeavesNone) {
  Pair model;
  optim::Adam optimizer(model);
  Trainer trainer(runtime, model, optimizer);
  trainer.step(toy::batch(1), loss_of(model));
  EXPECT_FALSE(trainer.step(toy::with_nan(toy::batch(2)), loss_of(model)).committed);
  EXPECT_FALSE(model.second.weight.grad().defined());
}

TEST_F(Registered, ACapturedStepSaysWhyItLeavesNone) {
  Variable w(Tensor::zeros({2}), true);
  w.state()->ended_step = Variable::State::kCaptured;
  EXPECT_NE(error_of<AutogradError>([&] { w.grad(); }).find("captured step"), std::string::npos);
}

TEST_F(Registered, ACallbackReadsThemWithoutTheLossScale) {
  struct Reads : Callback {
    Pair& model;
    std::vector<float> seen{};
    explicit Reads(Pair& m) : model(m) {}
    std::string name() const override { return "reads"; }
    void after_commit(StepResult&) override { seen = model.second.weight.grad().to_vector<float>(); }
  };
  Pair model;
  optim::Adam optimizer(model);
  Trainer trainer(runtime, model, optimizer, {.loss_scale = LossScaleOptions::fixed(4096)});
  Reads reads(model);
  trainer.add_callback(reads);
  const std::vector<float> wanted = reference(model, {toy::batch(1)});
  trainer.step(toy::batch(1), loss_of(model));
  expect_near(reads.seen, wanted);
}

struct WithDropout : nn::Module {
  nn::Linear layer{{.in = 4, .out = 4}};
  nn::Dropout dropout{{.p = 0.5}};
  void visit(nn::Visitor& v) override {
    v("layer", layer);
    v("dropout", dropout);
  }
  Variable forward(const Variable& x) override { return dropout(layer(x)); }
};

TEST_F(Registered, AModelThatIsTrainedInEvaluationModeIsNamedOnce) {
  const auto warnings_of = [&](bool whole, bool part) {
    WithDropout model;
    if (whole) model.eval();
    if (part) model.dropout.eval();
    optim::Adam optimizer(model);
    Trainer trainer(runtime, model, optimizer, {});
    std::vector<std::string> found;
    for (int step = 0; step < 4; ++step)
      for (const Warning& warning :
           trainer.step(Tensor::full({2, 4}, 1), [&](const Tensor& x) { return mean(square(model(x))); }).warnings)
        if (warning.kind == WarningKind::kUnusedSetting) found.push_back(warning.what);
    return found;
  };
  EXPECT_EQ(warnings_of(true, false).size(), 1u);
  EXPECT_TRUE(warnings_of(false, true).empty()) << "a part may stay in evaluation mode";
  EXPECT_TRUE(warnings_of(false, false).empty());
}

TEST_F(Registered, WeightsWrittenThroughMutableDataReachTheirSixteenBitCopies) {
  const PolicyScope policy(Policy::bf16());
  nn::Linear layer({.in = 2, .out = 1, .bias = false});
  layer.weight.mutable_value().fill(1);
  const Tensor x = Tensor::full({1, 2}, 1);
  EXPECT_EQ(layer(x).item(), 2);
  layer.weight.mutable_value().mutable_data<float>()[0] = 3;
  EXPECT_EQ(layer(x).item(), 4);
}

}  // namespace
}  // namespace binade::amp
