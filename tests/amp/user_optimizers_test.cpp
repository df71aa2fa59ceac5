#include <gtest/gtest.h>

#include "binade/amp/preflight/finding.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/nn/attention.h"
#include "tests/amp/toy.h"
#include "tests/error_text.h"
#include "tests/optim/every_optimizer.h"
#include "tests/optim/muon.h"
#include "tests/optim/rmsprop.h"

/// Optimizers that users write, and groups of parameters, in runs with a Trainer.
namespace binade::amp {
namespace {

template <class Optimizer>
struct UserRun {
  Runtime runtime{{.seed = 1, .threads = 1}};
  toy::Net net;
  Optimizer optimizer;
  Trainer trainer;

  template <class Options>
  UserRun(const Options& options, const TrainerOptions& run)
      : optimizer(net, options), trainer(runtime, net, optimizer, run) {}
  StepResult step(const toy::Batch& batch) {
    return trainer.step(batch, [&](const toy::Batch& b) { return toy::loss(net, b); });
  }
  StepResult step(std::uint32_t k) { return step(toy::batch(k)); }
};

/// Expects that ten steps give the same bits whether or not the run is resumed after five, and that the loss falls.
template <class Optimizer, class Options>
void expect_to_resume(const Options& options, bool averages_itself = false) {
  for (const char* precision : {"fp32", "fp16", "bf16", "pure-bf16"}) {
    const TrainerOptions run{.precision = Policy::by_name(precision),
                             .schedule = optim::Schedule::cosine(options.lr, 12, 0, 2),
                             .clip_norm = 1,
                             .ema = averages_itself ? std::nullopt : std::optional(optim::EmaOptions{})};
    std::string whole;
    StateDict saved;
    double first = 0, last = 0;
    {
      UserRun<Optimizer> one(options, run);
      for (std::uint32_t k = 0; k < 12; ++k) {
        if (k == 6) saved = one.trainer.state();
        last = one.step(k % 2).loss;
        if (k == 0) first = last;
      }
      EXPECT_EQ(one.trainer.steps(), 12);
      whole = one.trainer.state_hash();
    }
    EXPECT_LT(last, first) << precision;
    UserRun<Optimizer> two(options, run);
    two.trainer.load_state(saved);
    EXPECT_TRUE(two.trainer.changes().empty());
    for (std::uint32_t k = 6; k < 12; ++k) two.step(k % 2);
    EXPECT_EQ(two.trainer.state_hash(), whole) << precision;
  }
}

TEST(UserOptimizers, ResumeToTheSameBits) {
  expect_to_resume<user::Rmsprop>(user::RmspropOptions{.lr = 0.01, .momentum = 0.5, .centered = true});
  expect_to_resume<user::Muon>(user::MuonOptions{.lr = 0.02, .vector_lr_factor = 0.1});
}

TEST(Optimizers, ResumeToTheSameBits) {
  expect_to_resume<optim::AdamW>(optim::AdamWOptions{.lr = 0.02, .amsgrad = true});
  expect_to_resume<optim::Rmsprop>(optim::RmspropOptions{.lr = 0.01, .eps = 1e-3, .momentum = 0.5, .centered = true});
  expect_to_resume<optim::Adagrad>(optim::AdagradOptions{.lr = 0.05});
  expect_to_resume<optim::Adadelta>(optim::AdadeltaOptions{.lr = 1});
  expect_to_resume<optim::Adamax>(optim::AdamaxOptions{.lr = 0.02});
  expect_to_resume<optim::NAdam>(optim::NAdamOptions{.lr = 0.02});
  expect_to_resume<optim::RAdam>(optim::RAdamOptions{.lr = 0.05});
  expect_to_resume<optim::Rprop>(optim::RpropOptions{.lr = 0.01});
  expect_to_resume<optim::Asgd>(optim::AsgdOptions{.lr = 0.05, .t0 = 3}, true);
  expect_to_resume<optim::ScheduleFreeAdamW>(optim::ScheduleFreeAdamWOptions{.lr = 0.05, .warmup = 3}, true);
  expect_to_resume<optim::Adafactor>(optim::AdafactorOptions{.lr = 0.1});
  expect_to_resume<optim::Muon>(optim::MuonOptions{.lr = 0.02, .adamw_lr = 0.02});
  expect_to_resume<optim::Lamb>(optim::LambOptions{.lr = 0.05});
  expect_to_resume<optim::Lars>(optim::LarsOptions{.lr = 1, .trust = 0.05});
}

std::vector<float> values(const Variable& v) { return v.value().to_vector<float>(); }

TEST(Optimizers, EvaluationsAndCheckpointsHaveTheAveragesOfAScheduleFreeRun) {
  for (const char* precision : {"fp32", "bf16", "pure-bf16"}) {
    UserRun<optim::ScheduleFreeAdamW> run(optim::ScheduleFreeAdamWOptions{.lr = 0.05},
                                          {.precision = Policy::by_name(precision)});
    for (std::uint32_t k = 0; k < 8; ++k) run.step(k % 2);
    const std::vector<float> trained = values(run.net.up);
    const std::vector<float> averaged = run.trainer.evaluate([&] { return values(run.net.up); });
    EXPECT_NE(averaged, trained) << precision;
    EXPECT_EQ(values(run.net.up), trained) << precision;
    EXPECT_EQ(
        test::error_of<AutogradError>([&] { run.trainer.evaluate([&] { return run.trainer.state_hash(); }); }),
        "Trainer::state: not possible while averaged weights are in the model; call it before or after evaluate()");
    EXPECT_EQ(run.trainer.state().tensor("optim/ema/average/up.weight").to_vector<float>(), averaged) << precision;
    EXPECT_EQ(run.trainer.state().tensor("model/up.weight").to_vector<float>(), trained) << precision;
  }
}

TEST(Optimizers, AScheduleFreeRunTakesNoSecondAverage) {
  EXPECT_EQ(test::error_of([] {
              UserRun<optim::ScheduleFreeAdamW>(optim::ScheduleFreeAdamWOptions{}, {.ema = optim::EmaOptions{}});
            }),
            "trainer: schedule_free_adamw averages the weights itself, and evaluations use its averages; leave out the "
            "option ema");
}

/// If the second of two phases fails, neither optimizer changes anything.
TEST(Optimizers, PhasesCommitTogether) {
  for (const optim::NamedMaker& m : optim::every_optimizer()) {
    SCOPED_TRACE(m.name);
    Runtime runtime({.seed = 1});
    toy::Net first, second;
    const std::unique_ptr<optim::Optimizer> a = m.make(optim::parameters_of(first), false),
                                            b = m.make(optim::parameters_of(second), false);
    Trainer trainer(runtime, {{"first", first}, {"second", second}}, {{"first", *a}, {"second", *b}},
                    {.on_nan = OnNan::kStop});
    const auto step = [&](std::uint32_t k, double factor) {
      return trainer.step(
          toy::batch(k), Phases(phase(*a, [&](const toy::Batch& batch) { return toy::loss(first, batch); }),
                                phase(*b, [&](const toy::Batch& batch) { return toy::loss(second, batch) * factor; })));
    };
    EXPECT_TRUE(step(0, 1).committed);
    const std::string before = trainer.state_hash();
    EXPECT_THROW(step(1, std::nan("")), NumericError);
    EXPECT_EQ(trainer.state_hash(), before);
    EXPECT_TRUE(step(1, 1).committed);
    EXPECT_NE(trainer.state_hash(), before);
  }
}

TEST(UserOptimizers, GroupsResumeToTheSameBits) {
  expect_to_resume<optim::AdamW>(
      optim::AdamWOptions{.lr = 0.02,
                          .groups = {{.match = "*.bias", .weight_decay = 0, .beta2 = 0.9},
                                     {.match = "up.*", .lr_factor = 0.5},
                                     {.match = "down.*", .schedule = optim::Schedule::linear(0.01, 20)}}});
  expect_to_resume<user::Rmsprop>(
      user::RmspropOptions{.lr = 0.02, .groups = {{.match = "up.*", .lr = 0.01, .eps = 1e-4}}});
}

TEST(UserOptimizers, AnUpdateThatOverflowsLeavesNoTrace) {
  UserRun<user::Rmsprop> run(user::RmspropOptions{.lr = 0.01}, {.on_nan = OnNan::kStop});
  run.step(0);
  const std::string before = run.trainer.state_hash();
  // The gradient is finite in f32, but its square is not.
  const auto loss = [&](const toy::Batch& b) { return toy::loss(run.net, b) * 1e22; };
  EXPECT_THROW(run.trainer.step(toy::batch(1), loss), NumericError);
  EXPECT_EQ(run.trainer.state_hash(), before);
  EXPECT_TRUE(run.step(1).committed);
}

/// The first attempt contains a micro-batch with large logits, the second attempt leaves it out. These logits must not
/// cause a QK-clip.
TEST(Optimizers, LogitsOfAnAbortedAttemptDoNotClip) {
  struct Part {
    Tensor x{};
    double factor = 1;
  };
  const auto weights_after = [](const std::vector<Part>& parts) {
    Runtime runtime({.seed = 1, .threads = 1});
    nn::MultiHeadAttention attention({.dim = 16, .heads = 4, .causal = true});
    optim::Muon muon(attention, {.products = DType::f32});
    muon.clip_logits(attention, 0.5);
    Trainer trainer(runtime, attention, muon, {.on_nan = OnNan::kSkip});
    const StepResult result = trainer.step(MicroBatches<Part>{parts}, [&](const Part& part) {
      return mean(square(attention(Variable(part.x)))) * part.factor;
    });
    EXPECT_TRUE(result.committed);
    EXPECT_EQ(result.left_out.size(), parts.size() - 1);
    return values(attention.query.weight);
  };
  const Part ordinary{toy::random({2, 6, 16}, 1)}, bad{toy::random({2, 6, 16}, 2, 20), std::nan("")};
  EXPECT_EQ(weights_after({ordinary, bad}), weights_after({ordinary}));
}

TEST(UserOptimizers, AnErrorInAnUpdateLeavesNoTrace) {
  struct Refusing final : optim::CustomOptimizer {
    explicit Refusing(nn::Module& model)
        : CustomOptimizer(optim::parameters_of(model), {.kind = "refusing", .lr = 1}) {}
    void update(optim::ParameterUpdate& u) const override {
      u.weight = u.weight * 2.0;
      if (refuses && u.name == "down.weight") throw ArgumentError("no");
    }
    bool refuses = false;
  };
  Runtime runtime({.seed = 1});
  toy::Net net;
  Refusing optimizer(net);
  Trainer trainer(runtime, net, optimizer, {});
  const auto step = [&] { return trainer.step(toy::batch(0), [&](const toy::Batch& b) { return toy::loss(net, b); }); };
  step();
  const std::string before = trainer.state_hash();
  optimizer.refuses = true;
  EXPECT_THROW(step(), ArgumentError);
  EXPECT_EQ(trainer.state_hash(), before);
  optimizer.refuses = false;
  EXPECT_TRUE(step().committed);
}

TEST(UserOptimizers, ChangedGroupsAreReported) {
  StateDict saved;
  {
    UserRun<optim::AdamW> run(optim::AdamWOptions{.groups = {{.match = "up.*", .lr_factor = 0.5}}}, {});
    run.step(0);
    saved = run.trainer.state();
  }
  UserRun<optim::AdamW> run(optim::AdamWOptions{.groups = {{.match = "up.*", .lr_factor = 0.1}}}, {});
  run.trainer.load_state(saved);
  ASSERT_EQ(run.trainer.changes().size(), 1u);
  EXPECT_EQ(run.trainer.changes()[0],
            "parameter groups: group 'up.*' (2 parameters): lr_factor 0.5 -> group 'up.*' (2 parameters): lr_factor "
            "0.1");
}

TEST(UserOptimizers, PlateauSchedulesOfGroupsGetTheScore) {
  UserRun<optim::Sgd> run(
      optim::SgdOptions{.groups = {{.match = "up.*", .schedule = optim::Schedule::plateau(0.1, 0.5, 0)}}}, {});
  run.trainer.observe(1);
  run.trainer.observe(1);
  EXPECT_EQ(run.optimizer.lr_of(0, {.lr = 1}), 0.05);
}

std::vector<std::string> rules_found(PreflightReport report) {
  std::vector<std::string> rules;
  for (const PreflightFinding& f : report.findings) rules.push_back(f.rule + ": " + f.op);
  return rules;
}

TEST(UserOptimizers, PreflightChecksEveryGroupAndSkipsUnknownRules) {
  using Rules = std::vector<std::string>;
  const auto loss_of = [](toy::Net& net) { return [&net](const toy::Batch& b) { return toy::loss(net, b); }; };
  {
    UserRun<optim::AdamW> grouped(
        optim::AdamWOptions{.groups = {{.match = "up.*", .eps = 1e-30},
                                       {.match = "down.*", .weight_decay = 1e-9, .beta2 = 1 - 1e-9},
                                       {.match = "up.bias", .lr_factor = 0}}},
        {});
    EXPECT_EQ(rules_found(grouped.trainer.preflight(toy::batch(0), loss_of(grouped.net))),
              (Rules{"optimizer-eps: adamw, group 'up.*'", "beta-rounds-to-one: adamw, group 'down.*'",
                     "decay-vanishes: adamw, group 'down.*'"}));
  }
  {
    UserRun<user::Rmsprop> rmsprop(user::RmspropOptions{.eps = 1e-30}, {});
    EXPECT_EQ(rules_found(rmsprop.trainer.preflight(toy::batch(0), loss_of(rmsprop.net))),
              Rules{"optimizer-eps: rmsprop"});
  }
  UserRun<user::Muon> muon(user::MuonOptions{.lr = 1e-12}, {});
  EXPECT_EQ(rules_found(muon.trainer.preflight(toy::batch(0), loss_of(muon.net))), Rules{})
      << "nothing is claimed about a rule that states no facts";
}

TEST(Optimizers, PreflightFindsNothingInOrdinarySettings) {
  for (const optim::NamedMaker& m : optim::every_optimizer()) {
    Runtime runtime({.seed = 1});
    toy::Net net;
    const std::unique_ptr<optim::Optimizer> optimizer = m.make(optim::parameters_of(net), false);
    Trainer trainer(runtime, net, *optimizer, {});
    EXPECT_EQ(rules_found(trainer.preflight(toy::batch(0), [&](const toy::Batch& b) { return toy::loss(net, b); })),
              std::vector<std::string>{})
        << m.name;
  }
}

TEST(UserSchedules, ResumeWithTheirState) {
  struct Halving {
    double lr = 0.1;
    double operator()(std::int64_t) const { return lr; }
    void observe(double) { lr /= 2; }
    StateDict state() const {
      StateDict state;
      state.put("lr", lr);
      return state;
    }
    void load_state(const StateDict& state) { lr = state.number("lr"); }
  };
  StateDict saved;
  {
    UserRun<optim::Sgd> run(optim::SgdOptions{}, {.schedule = Halving{}});
    run.step(0);
    run.trainer.observe(1);
    saved = run.trainer.state();
  }
  {
    UserRun<optim::Sgd> run(optim::SgdOptions{}, {.schedule = Halving{}});
    run.trainer.load_state(saved);
    EXPECT_EQ(run.step(1).lr, 0.05);
  }
  UserRun<optim::Sgd> bad(optim::SgdOptions{},
                          {.schedule = [](std::int64_t k) { return k == 2 ? std::nan("") : 0.1; }});
  bad.step(0);
  const std::string before = bad.trainer.state_hash();
  EXPECT_THROW(bad.step(1), ArgumentError);
  EXPECT_EQ(bad.trainer.state_hash(), before);
}

}  // namespace
}  // namespace binade::amp
