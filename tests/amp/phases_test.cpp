#include <gtest/gtest.h>

#include <random>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/linear.h"
#include "binade/optim/ema.h"
#include "tests/amp/toy.h"
#include "tests/error_text.h"

/// Steps of several models and optimizers: phases, one loss for several optimizers, a teacher.
namespace binade::amp {
namespace {

using test::error_of;

struct Net : nn::Module {
  nn::Linear in, out;
  Net(std::int64_t from, std::int64_t to) : in({.in = from, .out = 8}), out({.in = 8, .out = to}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(relu(in(x))); }
};

struct Batch {
  Tensor noise{}, real{};
  io::BatchOrigin origin{};
};

Batch batch(std::uint32_t k) {
  return {.noise = toy::random({8, 2}, 100 + k), .real = toy::random({8, 4}, 200 + k, 0.5f)};
}

/// A least-squares GAN.
struct Game {
  explicit Game(TrainerOptions options = {}, double lr = 1e-2)
      : critic_optimizer(critic, {.lr = lr}),
        maker_optimizer(maker, {.lr = lr}),
        trainer(runtime, {{"critic", critic}, {"maker", maker}},
                {{"critic", critic_optimizer}, {"maker", maker_optimizer}}, std::move(options)) {}

  Variable critic_loss(const Batch& b) {
    const Variable real = critic(b.real) + -1.0, made = critic(maker(b.noise).detach());
    return mean(real * real) + mean(made * made);
  }
  Variable maker_loss(const Batch& b) {
    const Variable made = critic(maker(b.noise)) + -1.0;
    return mean(made * made);
  }
  auto phases() {
    return Phases(phase(critic_optimizer, [this](const Batch& b) { return critic_loss(b); }),
                  phase(maker_optimizer, [this](const Batch& b) { return maker_loss(b); }));
  }
  StepResult step(std::uint32_t k) { return trainer.step(batch(k), phases()); }

  Runtime runtime{{.seed = 3}};
  Net critic{4, 1}, maker{2, 4};
  optim::Adam critic_optimizer, maker_optimizer;
  Trainer trainer;
};

std::vector<std::vector<float>> weights_of(nn::Module& model) {
  std::vector<std::vector<float>> weights;
  for (const auto& [name, parameter] : nn::named_parameters(model))
    weights.push_back(parameter->value().to_vector<float>());
  return weights;
}

TEST(Phases, EqualTheUpdatesOfAHandWrittenLoop) {
  std::vector<std::vector<float>> by_trainer, by_hand;
  {
    Game game;
    for (std::uint32_t k = 0; k < 20; ++k) EXPECT_TRUE(game.step(k).committed);
    by_trainer = weights_of(game.critic);
    for (auto& w : weights_of(game.maker)) by_trainer.push_back(w);
  }
  {
    Runtime runtime({.seed = 3});
    Net critic(4, 1), maker(2, 4);
    optim::Adam critic_optimizer(critic, {.lr = 1e-2}), maker_optimizer(maker, {.lr = 1e-2});
    for (std::uint32_t k = 0; k < 20; ++k) {
      const Batch b = batch(k);
      critic_optimizer.zero_grad();
      const Variable real = critic(b.real) + -1.0, made = critic(maker(b.noise).detach());
      backward(mean(real * real) + mean(made * made));
      critic_optimizer.step();
      maker_optimizer.zero_grad();
      const Variable judged = critic(maker(b.noise)) + -1.0;
      backward(mean(judged * judged));
      maker_optimizer.step();
    }
    by_hand = weights_of(critic);
    for (auto& w : weights_of(maker)) by_hand.push_back(w);
  }
  EXPECT_EQ(by_trainer, by_hand);
}

/// The override names an op of the maker, which runs in the second phase only.
TEST(Phases, OverridesMayConcernAnOpOfALaterPhase) {
  {
    Game game({.precision = Policy::bf16().with("maker.in/linear", DType::f32), .verify_every = 1});
    EXPECT_TRUE(game.step(0).committed);
  }
  Game wrong({.precision = Policy::bf16().with("maker.in/conv2d", DType::f32)});
  EXPECT_NE(error_of<ArgumentError>([&] { wrong.step(0); }).find("'maker.in/conv2d' matches no module path and no op"),
            std::string::npos);
}

TEST(Phases, AreReportedSeparatelyAndAsASum) {
  Game game;
  const StepResult result = game.step(0);
  ASSERT_EQ(result.phases.size(), 2u);
  EXPECT_EQ(result.phases[0].name, "critic");
  EXPECT_EQ(result.phases[1].name, "maker");
  EXPECT_EQ(result.loss, result.phases[0].loss + result.phases[1].loss);
  EXPECT_EQ(result.grad_norm,
            std::sqrt(std::pow(result.phases[0].grad_norm, 2) + std::pow(result.phases[1].grad_norm, 2)));
  EXPECT_EQ(result.phases[0].lr, 1e-2);
}

/// Each run reports this once, also if its steps have one phase only, and also after it is resumed from a checkpoint.
TEST(Phases, SayOnceThatTheirStepsAreNotCaptured) {
  const auto notes = [](Game& game) {
    int count = 0;
    for (std::uint32_t k = 0; k < 3; ++k) {
      const StepResult result = game.trainer.step(
          batch(k), Phases(phase(game.critic_optimizer, [&](const Batch& b) { return game.critic_loss(b); })));
      EXPECT_TRUE(result.committed);
      count += static_cast<int>(std::ranges::count(result.notes, "steps are not captured: they have phases"));
    }
    return count;
  };
  StateDict state;
  {
    Game first({.record = true});
    EXPECT_EQ(notes(first), 1);
    state = first.trainer.state();
  }
  Game second({.record = true});
  second.trainer.load_state(state);
  EXPECT_EQ(notes(second), 1);
}

TEST(Phases, ResumeToTheSameBits) {
  for (const char* policy : {"fp32", "fp16", "bf16", "pure-bf16"}) {
    const TrainerOptions options{.precision = Policy::by_name(policy), .ema = optim::EmaOptions{.decay = 0.9}};
    std::string whole, resumed;
    StateDict state;
    {
      Game game(options);
      for (std::uint32_t k = 0; k < 12; ++k) {
        game.step(k);
        if (k == 6) state = game.trainer.state();
      }
      whole = game.trainer.state_hash();
    }
    {
      Game game(options);
      game.trainer.load_state(state);
      for (std::uint32_t k = 7; k < 12; ++k) game.step(k);
      resumed = game.trainer.state_hash();
    }
    EXPECT_EQ(whole, resumed) << policy;
  }
}

/// A failure that a test plants into one phase of a step.
enum class Failure { kNanLoss, kInfGradient, kHugeUpdate, kThrow, kBadData };

TEST(Phases, AFailedPhaseLeavesNoTraceInAnyPlayer) {
  std::mt19937 random(20261126);
  Game game({.precision = Policy::fp16(), .on_nan = OnNan::kStop});
  std::uint32_t k = 0;
  for (; k < 3; ++k) ASSERT_TRUE(game.step(k).committed);
  for (int planted = 0; planted < 1000; ++planted) {
    const int bad_phase = static_cast<int>(random() % 2);
    const auto failure = static_cast<Failure>(random() % 5);
    const auto spoilt = [&](const Variable& loss, int number) -> Variable {
      if (number != bad_phase) return loss;
      switch (failure) {
        case Failure::kNanLoss: return loss * std::nan("");
        case Failure::kInfGradient: return apply_one<toy::Fragile>({.limit = 0}, {loss});
        case Failure::kHugeUpdate: {
          optim::Adam& optimizer = number == 0 ? game.critic_optimizer : game.maker_optimizer;
          optimizer.set_lr(1e38);
          return loss;
        }
        case Failure::kThrow: throw ShapeError("closure: wanted 1, got 2");
        case Failure::kBadData: throw DataError("closure: no label");
      }
      return loss;
    };
    const auto failing = [&] {
      return Phases(phase(game.critic_optimizer, [&](const Batch& b) { return spoilt(game.critic_loss(b), 0); }),
                    phase(game.maker_optimizer, [&](const Batch& b) { return spoilt(game.maker_loss(b), 1); }));
    };
    const std::string before = game.trainer.state_hash();
    EXPECT_THROW(game.trainer.step(batch(k), failing()), Error)
        << "phase " << bad_phase << ", failure " << static_cast<int>(failure);
    game.critic_optimizer.set_lr(1e-2);
    game.maker_optimizer.set_lr(1e-2);
    ASSERT_EQ(game.trainer.state_hash(), before) << "phase " << bad_phase << ", failure " << static_cast<int>(failure);
    if (planted % 100 == 0) {
      ASSERT_TRUE(game.step(k++).committed);
    }
  }
}

TEST(Phases, FailuresDoNotChangeLaterSteps) {
  std::string undisturbed, disturbed;
  for (std::string* hash : {&undisturbed, &disturbed}) {
    Game game({.on_nan = OnNan::kStop});
    for (std::uint32_t k = 0; k < 10; ++k) {
      if (hash == &disturbed) {
        const auto nan = [&] {
          return Phases(phase(game.critic_optimizer, [&](const Batch& b) { return game.critic_loss(b); }),
                        phase(game.maker_optimizer, [&](const Batch& b) { return game.maker_loss(b) * std::nan(""); }));
        };
        EXPECT_THROW(game.trainer.step(batch(k), nan()), NumericError);
      }
      EXPECT_TRUE(game.step(k).committed);
    }
    *hash = game.trainer.state_hash();
  }
  EXPECT_EQ(undisturbed, disturbed);
}

TEST(Phases, AnOverflowOfOnePhaseLowersTheScaleForTheWholeStep) {
  Game game({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p32)});
  for (std::uint32_t k = 0; k < 5; ++k) EXPECT_TRUE(game.step(k).committed);
  EXPECT_LT(game.trainer.scaler().scale(), 0x1p32);
  for (const StepResult& r : game.trainer.finished()) EXPECT_FALSE(r.incident.has_value()) << *r.incident;
}

TEST(Phases, AnIncidentNamesPhaseModelAndOp) {
  Game game({.on_nan = OnNan::kStop});
  EXPECT_TRUE(game.step(0).committed);
  const auto bad = [&] {
    return Phases(phase(game.critic_optimizer, [&](const Batch& b) { return game.critic_loss(b); }),
                  phase(game.maker_optimizer, [&](const Batch& b) {
                    return game.maker_loss(b) + mean(log(game.maker(b.noise) * 0.0 + -1.0));
                  }));
  };
  try {
    game.trainer.step(batch(1), bad());
    FAIL();
  } catch (const NumericError& error) {
    EXPECT_NE(std::string(error.what()).find("in the phase of maker"), std::string::npos) << error.what();
  }
  const StepResult result = game.trainer.finished().back();
  ASSERT_TRUE(result.incident && result.incident->diagnosis.first_bad);
  EXPECT_EQ(result.incident->diagnosis.first_bad->op, "log");
  EXPECT_TRUE(result.incident->diagnosis.reproducible);
}

TEST(Phases, DrawDifferentRandomNumbers) {
  Runtime runtime({.seed = 5});
  Net a(4, 1), b(4, 1);
  optim::Sgd first(a, {.lr = 0.1}), second(b, {.lr = 0.1});
  Trainer trainer(runtime, {{"a", a}, {"b", b}}, {{"a", first}, {"b", second}});
  std::vector<std::vector<float>> masks;
  const auto loss = [&](Net& net) {
    return [&](const Batch& batch) {
      const Variable dropped = dropout(Variable(Tensor::full({8, 4}, 1)), 0.5);
      masks.push_back(dropped.value().to_vector<float>());
      return mean(net(batch.real * dropped));
    };
  };
  trainer.step(batch(0), Phases(phase(first, loss(a)), phase(second, loss(b))));
  ASSERT_EQ(masks.size(), 2u);
  EXPECT_NE(masks[0], masks[1]);
}

TEST(Phases, TrainOneOptimizerSeveralTimes) {
  Game game;
  const auto twice = [&] {
    const auto critic = [&](const Batch& b) { return game.critic_loss(b); };
    return Phases(phase(game.critic_optimizer, critic), phase(game.critic_optimizer, critic),
                  phase(game.maker_optimizer, [&](const Batch& b) { return game.maker_loss(b); }));
  };
  for (std::uint32_t k = 0; k < 3; ++k) EXPECT_TRUE(game.trainer.step(batch(k), twice()).committed);
  EXPECT_EQ(game.critic_optimizer.updates(), 6);
  EXPECT_EQ(game.maker_optimizer.updates(), 3);
  const std::string before = game.trainer.state_hash();
  const auto failing = [&] {
    const auto critic = [&](const Batch& b) { return game.critic_loss(b); };
    return Phases(phase(game.critic_optimizer, critic), phase(game.critic_optimizer, critic),
                  phase(game.maker_optimizer, [&](const Batch& b) -> Variable {
                    game.maker_loss(b);
                    throw ShapeError("closure: wanted 1, got 2");
                  }));
  };
  EXPECT_THROW(game.trainer.step(batch(3), failing()), ShapeError);
  EXPECT_EQ(game.trainer.state_hash(), before);
}

TEST(Phases, AcceptMicroBatches) {
  Game game({.accumulate = 2});
  MicroBatches<Batch> two{{batch(0), batch(1)}};
  const StepResult result = game.trainer.step(two, game.phases());
  EXPECT_TRUE(result.committed);
  EXPECT_EQ(game.maker_optimizer.updates(), 1);
}

TEST(Phases, PreflightChangesNothing) {
  Game game;
  game.step(0);
  const std::string before = game.trainer.state_hash();
  const PreflightReport report = game.trainer.preflight(batch(1), game.phases());
  EXPECT_TRUE(std::isfinite(report.loss));
  EXPECT_EQ(game.trainer.state_hash(), before);
}

// ---- one loss, several optimizers ---------------------------------------------------------------

TEST(SeveralOptimizers, OfOneModelEqualASingleOptimizer) {
  const auto run = [](bool divided) {
    Runtime runtime({.seed = 3});
    Net net(4, 2);
    const TrainerOptions options{.precision = Policy::fp16(), .clip_norm = 0.1};
    const auto steps = [&](Trainer& trainer) {
      for (std::uint32_t k = 0; k < 10; ++k)
        trainer.step(toy::batch(k), [&](const toy::Batch& b) { return mse(net(b.x), b.target); });
      return weights_of(net);
    };
    if (!divided) {
      optim::Adam whole(net, {.lr = 1e-2});
      Trainer trainer(runtime, net, whole, options);
      return steps(trainer);
    }
    std::vector<optim::NamedParameter> inner, outer;
    for (const optim::NamedParameter& p : optim::parameters_of(net))
      (p.name.starts_with("in.") ? inner : outer).push_back(p);
    optim::Adam first(inner, {.lr = 1e-2}), second(outer, {.lr = 1e-2});
    Trainer trainer(runtime, net, {{"inner", first}, {"outer", second}}, options);
    return steps(trainer);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(SeveralOptimizers, HaveSchedulesAndAveragesOfTheirOwn) {
  Runtime runtime({.seed = 3});
  Net critic(4, 1), maker(2, 4);
  optim::Sgd first(critic, {.lr = 1}), second(maker, {.lr = 1});
  Trainer trainer(runtime, {{"critic", critic}, {"maker", maker}},
                  {{.name = "critic", .optimizer = first, .schedule = optim::Schedule::constant(0.25)},
                   {.name = "maker",
                    .optimizer = second,
                    .schedule = optim::Schedule::linear(0.5, 10),
                    .ema = optim::EmaOptions{.decay = 0.5}}});
  const StepResult result = trainer.step(
      batch(0), Phases(phase(first, [&](const Batch& b) { return mean(critic(b.real)); }),
                       phase(second, [&](const Batch& b) { return mean(critic(maker(b.noise))); })));
  EXPECT_EQ(result.phases[0].lr, 0.25);
  EXPECT_NEAR(result.phases[1].lr, 0.45, 1e-12);
  EXPECT_EQ(result.metric("lr/critic"), 0.25);
  EXPECT_EQ(result.metric("lr/maker"), result.phases[1].lr);
  EXPECT_EQ(trainer.ema(), nullptr);
  const StateDict state = trainer.state();
  EXPECT_TRUE(state.contains("optim/maker/ema/updates"));
  EXPECT_FALSE(state.contains("optim/critic/ema/updates"));
  EXPECT_TRUE(state.contains("model/maker.in.weight"));
  EXPECT_TRUE(state.contains("sched/critic/kind"));
}

TEST(SeveralOptimizers, ReportTheRatesOfTheirGroups) {
  using Rates = std::vector<std::pair<std::string, double>>;
  const auto rates_of = [](const StepResult& result) {
    Rates rates;
    for (const StepMetric& metric : result.metrics)
      if (metric.tag.starts_with("lr")) {
        EXPECT_EQ(metric.member, metric.tag) << "logs and terminal have it too";
        rates.emplace_back(metric.tag, metric.value);
      }
    return rates;
  };
  Runtime runtime({.seed = 3});
  const auto loss = [](Net& net) { return [&net](const toy::Batch& b) { return mse(net(b.x), Variable(b.target)); }; };
  {
    Net net(4, 2);
    optim::Sgd plain(net, {.lr = 0.5});
    Trainer trainer(runtime, net, plain);
    EXPECT_TRUE(rates_of(trainer.step(toy::batch(1), loss(net))).empty()) << "one rate is `lr` alone";
  }
  {
    Net net(4, 2);
    optim::Sgd grouped(net, {.lr = 0.5,
                             .groups = {{.match = "*.bias", .lr_factor = 0.5},
                                        {.match = {"in.*", "none.*"}, .schedule = optim::Schedule::constant(0.125)},
                                        {.match = net.out, .lr_factor = 2, .name = "head"}}});
    Trainer trainer(runtime, net, grouped);
    EXPECT_EQ(
        rates_of(trainer.step(toy::batch(1), loss(net))),
        (Rates{{"lr/in.*,none.*", 0.125}, {"lr/*.bias+in.*,none.*", 0.125}, {"lr/head", 1}, {"lr/*.bias+head", 1}}));
  }
  {  // Group names that contain "+", which joins names.
    Net net(4, 2);
    optim::Sgd grouped(net, {.lr = 0.5,
                             .groups = {{.match = "in.weight", .lr_factor = 0.5, .name = "rest"},
                                        {.match = "*.bias", .lr_factor = 0.25, .name = "a"},
                                        {.match = "in.bias", .lr_factor = 2, .name = "b"},
                                        {.match = "out.weight", .lr_factor = 4, .name = "a+b"}}});
    Trainer trainer(runtime, net, grouped);
    EXPECT_EQ(rates_of(trainer.step(toy::batch(1), loss(net))),
              (Rates{{"lr/rest #2", 0.25}, {"lr/a+b", 1}, {"lr/a+b #2", 2}, {"lr/a", 0.125}}));
  }
  {
    Net net(4, 2);
    std::vector<optim::NamedParameter> inner, outer;
    for (const optim::NamedParameter& p : optim::parameters_of(net))
      (p.name.starts_with("in.") ? inner : outer).push_back(p);
    const auto is_bias = [](std::string_view name, const Variable&) { return name.ends_with("bias"); };
    optim::Sgd first(inner, {.lr = 0.5, .groups = {{.match = optim::ParameterMatch(is_bias), .lr_factor = 0.5}}});
    optim::Sgd second(outer, {.lr = 0.25});
    Trainer trainer(runtime, net, {{"inner", first}, {"outer", second}});
    EXPECT_EQ(rates_of(trainer.step(toy::batch(1), loss(net))),
              (Rates{{"lr/inner/rest", 0.5}, {"lr/inner/group 1", 0.25}, {"lr/outer", 0.25}}));
  }
}

// ---- a teacher ----------------------------------------------------------------------------------

TEST(Teacher, IsTheAverageOfItsStudent) {
  Runtime runtime({.seed = 3});
  Net student(4, 2), teacher(4, 2);
  optim::Sgd optimizer(student, {.lr = 0.1});
  Trainer trainer(runtime,
                  {{.name = "student", .model = student},
                   {.name = "teacher", .model = teacher, .average_of = &student, .average = {.decay = 0.75}}},
                  {{.name = "student", .optimizer = optimizer}});
  EXPECT_EQ(weights_of(teacher), weights_of(student)) << "it begins as a copy";
  std::vector<std::vector<float>> reference = weights_of(student);
  const auto loss = [&](const toy::Batch& b) {
    return mse(student(b.x), b.target) + mse(student(b.x), teacher(b.x).detach());
  };
  for (std::uint32_t k = 0; k < 10; ++k) {
    ASSERT_TRUE(trainer.step(toy::batch(k), loss).committed);
    const auto weights = weights_of(student);
    for (std::size_t p = 0; p < weights.size(); ++p)
      for (std::size_t i = 0; i < weights[p].size(); ++i)
        reference[p][i] = static_cast<float>(0.75 * reference[p][i] + 0.25 * weights[p][i]);
  }
  const auto averages = weights_of(teacher);
  for (std::size_t p = 0; p < averages.size(); ++p)
    for (std::size_t i = 0; i < averages[p].size(); ++i)
      EXPECT_NEAR(averages[p][i], reference[p][i], 4e-7) << "10 roundings of numbers below 1";
  const std::string before = trainer.state_hash();
  const auto failing = [&](const toy::Batch& b) { return loss(b) * std::nan(""); };
  EXPECT_FALSE(trainer.step(toy::batch(11), failing).committed);
  EXPECT_EQ(weights_of(teacher), averages);
  EXPECT_EQ(trainer.state_hash(), before);
}

/// After a teacher gets its student's weights, its 16-bit copies are those of the new weights. The number of earlier
/// writes must not matter.
TEST(Teacher, ForgetsCopiesOfItsFormerWeights) {
  for (int writes = 0; writes < 4; ++writes) {
    Runtime runtime({.seed = 3});
    Net student(4, 2), teacher(4, 2);
    teacher.requires_grad(false);
    for (int i = 0; i < writes; ++i) teacher.in.weight.mutable_value().fill(1);
    const PolicyScope policy({.name = "bf16", .low = DType::bf16});
    const Tensor x = toy::random({8, 4}, 5);
    teacher(x);  // makes the copies
    optim::Sgd optimizer(student, {.lr = 0.1});
    Trainer trainer(runtime,
                    {{.name = "student", .model = student},
                     {.name = "teacher", .model = teacher, .average_of = &student, .average = {.decay = 0.75}}},
                    {{.name = "student", .optimizer = optimizer}});
    EXPECT_EQ(teacher(x).value().to_vector<float>(), student(x).value().to_vector<float>()) << writes << " writes";
  }
}

TEST(Teacher, ResumesToTheSameBits) {
  const auto run = [](std::uint32_t from, const StateDict* state, StateDict* middle) {
    Runtime runtime({.seed = 3});
    Net student(4, 2), teacher(4, 2);
    optim::AdamW optimizer(student, {.lr = 0.01});
    Trainer trainer(runtime,
                    {{.name = "student", .model = student},
                     {.name = "teacher", .model = teacher, .average_of = &student, .average = {.warmup = true}}},
                    {{.name = "student", .optimizer = optimizer}}, {.precision = Policy::bf16()});
    if (state != nullptr) trainer.load_state(*state);
    for (std::uint32_t k = from; k < 12; ++k) {
      trainer.step(toy::batch(k), [&](const toy::Batch& b) {
        return mse(student(b.x), b.target) + mse(student(b.x), teacher(b.x).detach());
      });
      if (k == 5 && middle != nullptr) *middle = trainer.state();
    }
    return trainer.state_hash();
  };
  StateDict middle;
  const std::string whole = run(0, nullptr, &middle);
  EXPECT_EQ(run(6, &middle, nullptr), whole);
}

// ---- mistakes -----------------------------------------------------------------------------------

TEST(SeveralOptimizers, MistakesAreErrorsThatSayWhatToDo) {
  Runtime runtime({.seed = 3});
  Net a(4, 1), b(4, 1);
  optim::Sgd first(a, {.lr = 0.1}), second(b, {.lr = 0.1}), again(a, {.lr = 0.1});
  EXPECT_EQ(error_of([&] {
              Trainer(runtime, {{"a", a}, {"a", b}}, {{"x", first}});
            }),
            "trainer: two models are called 'a'; give each its own name");
  EXPECT_EQ(error_of([&] {
              Trainer(runtime, {{"a", a}, {"b", b}}, {{"", first}, {"y", second}});
            }),
            "trainer: wanted a name without spaces and slashes for each optimizer, got ''");
  EXPECT_EQ(error_of([&] {
              Trainer(runtime, {{"a", a}, {"b", b}}, {{"x", first}, {"y", again}});
            }),
            "trainer: two optimizers hold the parameter a.in.weight; each parameter may have one");
  Trainer trainer(runtime, {{"a", a}, {"b", b}}, {{"x", first}});
  const std::string stranger = error_of(
      [&] { trainer.step(batch(0), Phases(phase(second, [&](const Batch& x) { return mean(b(x.real)); }))); });
  EXPECT_NE(stranger.find("that the trainer does not have"), std::string::npos) << stranger;
}

}  // namespace
}  // namespace binade::amp
