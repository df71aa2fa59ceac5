#include "binade/amp/warnings/swallowed_overflow.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "binade/amp/watch/swallowed_infinity.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "tests/amp/toy.h"

/// If a later op turns infinities into finite numbers, the warning names both ops. Infinities of a mask or a selection
/// are not reported.
namespace binade::amp {
namespace {

constexpr auto kInfinity = std::numeric_limits<float>::infinity();

/// A training of a net with a given function between its layers.
struct UserRun {
  using Function = std::function<Variable(const Variable& h)>;
  Runtime runtime{{.seed = 1, .threads = 1}};
  toy::Two net;
  optim::AdamW optimizer{net, {.lr = 1e-3}};
  Trainer trainer;
  Function function;
  std::vector<Warning> warnings;

  explicit UserRun(Function f, const Policy& policy = Policy::fp16())
      : trainer(runtime, net, optimizer, {.precision = policy}), function(std::move(f)) {}
  void to(std::int64_t step) {
    while (trainer.steps() < step) {
      const StepResult result = trainer.step(toy::batch(static_cast<std::uint32_t>(trainer.steps())),
                                             [&](const toy::Batch& b) {
                                               return mse(net.second(function(net.first(b.x))), Variable(b.target));
                                             });
      ASSERT_FALSE(result.incident.has_value());
      warnings.insert(warnings.end(), result.warnings.begin(), result.warnings.end());
    }
  }
};

Variable saturated(const Variable& h) { return h + tanh((h + 1.0) * 1e6); }

TEST(SwallowedOverflow, IsReportedOnceWithTheOpThatSwallowsIt) {
  UserRun run(saturated);
  run.to(60);
  ASSERT_EQ(run.warnings.size(), 1u);
  const Warning& warning = run.warnings.front();
  EXPECT_EQ(warning.kind, WarningKind::kSwallowedOverflow);
  EXPECT_EQ(warning.step, 12);
  EXPECT_EQ(warning.op, "mul_scalar");
  EXPECT_EQ(warning.dtype, "f16");
  EXPECT_NE(warning.what.find("'tanh'"), std::string::npos) << warning.what;
}

TEST(SwallowedOverflow, IsNotReportedIfTheValuesFit) {
  for (const Policy& policy : {Policy::fp32(), Policy::bf16(), Policy::fp16().with("*/mul_scalar", DType::f32)}) {
    UserRun run(saturated, policy);
    run.to(40);
    EXPECT_TRUE(run.warnings.empty()) << policy.name;
  }
}

TEST(SwallowedOverflow, ADivisionByZeroIsReportedInF32Too) {
  // The quotient is detached, because its derivative at 0 would not be finite.
  UserRun run([](const Variable& h) { return h + tanh(1.0 / relu(h - 1e6).detach()); }, Policy::fp32());
  run.to(40);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_EQ(run.warnings[0].op, "scalar_div");
  EXPECT_EQ(run.warnings[0].dtype, "f32");
}

TEST(SwallowedOverflow, AResumedRunReportsTheSame) {
  StateDict state;
  {
    UserRun before(saturated);
    before.to(9);
    EXPECT_TRUE(before.warnings.empty());
    state = before.trainer.state();
  }
  UserRun after(saturated);
  after.trainer.load_state(state);
  after.to(20);
  ASSERT_EQ(after.warnings.size(), 1u);
  EXPECT_EQ(after.warnings[0].step, 12);
}

TEST(SwallowedOverflow, AnInfinityThatAProgramIntendsIsNotReported) {
  const Tensor mask = Tensor::from(std::vector<float>{0, -kInfinity, 0, 0, -kInfinity, 0, 0, 0}, {8, 1});
  const Tensor large = Tensor::from(std::vector<float>{0, -1e9f, 0, 0, -1e9f, 0, 0, 0}, {8, 1});
  const Tensor kept = Tensor::from(std::vector<float>{1, 0, 1, 1, 0, 1, 1, 1}, {8, 1});
  const Tensor chosen = Tensor::full({8, 1}, 1).to(DType::u8);
  const auto masked = [](const Variable& scores) { return softmax(reshape(permute(scores, {1, 0}), {2, 8, 8}), 2); };
  const auto back = [](const Variable& weights) { return permute(reshape(weights, {16, 8}), {1, 0}); };
  const std::vector<std::pair<const char*, UserRun::Function>> intended{
      {"a mask of -inf", [=](const Variable& h) { return back(masked(h + Variable(mask))); }},
      {"scaled after the mask", [=](const Variable& h) { return back(masked((h + Variable(mask)) * 0.5)); }},
      {"a large negative mask, which f16 stores as -inf",
       [=](const Variable& h) { return back(masked(cast(h, DType::f16) + cast(Variable(large), DType::f16))); }},
      {"the logarithm of a mask", [=](const Variable& h) { return back(masked(h + log(Variable(kept)))); }},
      {"a selection",
       [=](const Variable& h) { return where(Variable(chosen), h, (cast(h, DType::f16) * 0.0 + 1.0) * 1e6); }},
      {"a bound of the batch", [=](const Variable& h) { return h + exp(Variable(mask) * 1.0); }},
      {"the largest of masked values",
       [=](const Variable& h) { return h + max(h.detach() + Variable(mask), {0}, true); }},
      {"a number for people that nothing reads",
       [](const Variable& h) {
         (void)(h * 1e9);
         return h;
       }},
  };
  for (const auto& [name, function] : intended) {
    UserRun run(function);
    run.to(40);
    EXPECT_TRUE(run.warnings.empty()) << name << ": " << (run.warnings.empty() ? "" : run.warnings[0].what);
  }
}

TEST(SwallowedOverflow, AnInfinityBesideAMaskIsFound) {
  const Runtime runtime({.threads = 1});
  Telemetry telemetry;
  telemetry.begin({.limits = true});
  const ObserverScope watched(telemetry);
  step_context().next = {};
  const Variable x(Tensor::full({2, 2}, 2), true);
  (void)softmax(x + Variable(Tensor::from(std::vector<float>{0, -kInfinity, 0, 0}, {2, 2})));
  (void)sigmoid(exp(x * 100.0));
  const auto forward = telemetry.records(Direction::kForward);
  const std::vector<SwallowedInfinity> found = find_swallowed_infinities(forward);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_STREQ(forward[found[0].origin].op, "exp");
  EXPECT_STREQ(forward[found[0].swallower].op, "sigmoid");
}

TEST(SwallowedOverflow, AnImplausibleStateIsRefused) {
  StateDict bad;
  bad.put("targets", std::string("a/mul\n"));
  bad.put("checks", StateDict::Integers{1, 2});
  EXPECT_THROW(SwallowedOverflow().load_state(bad), CheckpointError);
}

}  // namespace
}  // namespace binade::amp
