#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "binade/core/runtime.h"
#include "binade/optim/adam.h"
#include "binade/optim/clip.h"
#include "binade/optim/ema.h"
#include "binade/optim/lion.h"
#include "binade/optim/schedule.h"
#include "binade/optim/sgd.h"
#include "tests/golden/golden_file.h"
#include "tests/optim/muon.h"
#include "tests/optim/rmsprop.h"

namespace binade::golden {
namespace {

// Twenty updates in f32. In each, a value near 1 gets a few rounding errors of 2^-24.
constexpr Tolerance kUpdates{.rtol = 1e-5, .share = 2e-6};
constexpr int kSteps = 20;

std::vector<Case> cases() { return read(folder() + "/optim.txt"); }

std::unique_ptr<optim::Optimizer> make_optimizer(const Case& c, std::vector<optim::NamedParameter> parameters) {
  const double lr = c.number("lr"), decay = c.number("weight_decay");
  if (c.op == "sgd")
    return std::make_unique<optim::Sgd>(std::move(parameters), optim::SgdOptions{.lr = lr,
                                                                                 .momentum = c.number("momentum"),
                                                                                 .weight_decay = decay,
                                                                                 .nesterov = c.flag("nesterov")});
  if (c.op == "rmsprop")
    return std::make_unique<user::Rmsprop>(std::move(parameters), user::RmspropOptions{.lr = lr,
                                                                                       .alpha = c.number("alpha"),
                                                                                       .weight_decay = decay,
                                                                                       .momentum = c.number("momentum"),
                                                                                       .centered = c.flag("centered")});
  if (c.op == "muon")
    return std::make_unique<user::Muon>(std::move(parameters), user::MuonOptions{.lr = lr, .weight_decay = decay});
  const double beta1 = c.number("beta1"), beta2 = c.number("beta2");
  if (c.op == "lion")
    return std::make_unique<optim::Lion>(
        std::move(parameters), optim::LionOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .weight_decay = decay});
  const double eps = c.number("eps");
  if (c.op == "adam")
    return std::make_unique<optim::Adam>(
        std::move(parameters),
        optim::AdamOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = decay});
  if (c.op == "adamw")
    return std::make_unique<optim::AdamW>(
        std::move(parameters),
        optim::AdamWOptions{.lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = decay});
  ADD_FAILURE() << "no optimizer " << c.op;
  return nullptr;
}

/// Clips the gradients as the case says. Clipping by value is part of the update, so it is returned as an option of the
/// step.
optim::StepInput clip(const Case& c, optim::FlatParameters& parameters) {
  optim::StepInput input{.lr = c.number("lr")};
  const std::string mode = c.text("clip_mode");
  if (mode == "norm") optim::clip_by_norm(parameters, c.number("clip"));
  if (mode == "value") input.clip_value = c.number("clip");
  if (mode == "adaptive") optim::clip_adaptive(parameters, {.limit = c.number("clip")});
  return input;
}

void run(const Case& c) {
  SCOPED_TRACE(c.name);
  std::vector<Variable> variables;
  std::vector<optim::NamedParameter> parameters;
  for (const char* name : {"w", "b"}) {
    const Variable v(c.array(std::string("init.") + name).tensor(DType::f32), true);
    variables.push_back(v);
    parameters.push_back({name, v, optim::decays_by_rank(v)});
  }
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(c, parameters);
  ASSERT_TRUE(optimizer);
  std::unique_ptr<optim::Ema> ema;
  if (c.text("ema") != "none")
    ema = std::make_unique<optim::Ema>(optimizer->parameters(), optim::EmaOptions{.decay = c.number("ema")});
  for (int step = 1; step <= kSteps; ++step) {
    SCOPED_TRACE(step);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Variable::State& state = *variables[i].state();
      state.grad.copy_from(c.array("grad." + std::to_string(step) + "." + parameters[i].name).tensor(DType::f32));
      state.grad_defined = true;
    }
    optimizer->step(clip(c, optimizer->parameters()));
    if (ema) ema->update();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string role = std::to_string(step) + "." + parameters[i].name;
      ASSERT_EQ(difference(variables[i].value(), c.array("after." + role), kUpdates), "") << parameters[i].name;
      if (ema) {
        ASSERT_EQ(difference(ema->average(i), c.array("ema." + role), kUpdates), "") << parameters[i].name;
      }
    }
    optimizer->zero_grad();
  }
}

TEST(GoldenOptim, OptimizersClippingAndAveragesMatchPyTorchOverTwentySteps) {
  const Runtime runtime;
  int met = 0;
  for (const Case& c : cases()) {
    if (c.op == "schedule" || c.op == "rule" || c.op == "plateau") continue;
    run(c);
    ++met;
  }
  EXPECT_EQ(met, 19);
}

optim::Schedule rule_of(const Case& c) {
  using optim::Schedule;
  const double lr = c.number("lr");
  const std::string kind = c.text("schedule");
  if (kind == "step") return Schedule::step(lr, c.integer("every"), c.number("factor"));
  if (kind == "multi_step")
    return Schedule::multi_step(lr, {c.integer("first"), c.integer("second")}, c.number("factor"));
  if (kind == "exponential") return Schedule::exponential(lr, c.number("factor"));
  if (kind == "one_cycle") return Schedule::one_cycle(lr, c.integer("steps"), c.number("rise"));
  if (kind == "cosine_restarts")
    return Schedule::cosine_restarts(lr, c.integer("cycle"), c.integer("growth"), c.number("min_lr"));
  if (kind == "lambda")
    return Schedule::lambda(lr, [](std::int64_t k) { return std::pow(0.95, static_cast<double>(k - 1)) + 0.1; });
  if (kind == "wsd") return Schedule::wsd(lr, c.integer("steps"), c.integer("decay"), c.number("min_lr"));
  ADD_FAILURE() << "no schedule " << kind;
  return Schedule();
}

TEST(GoldenOptim, ScheduleRulesMatchPyTorch) {
  int met = 0;
  for (const Case& c : cases()) {
    if (c.op != "rule") continue;
    SCOPED_TRACE(c.name);
    const optim::Schedule schedule = rule_of(c);
    const std::vector<double>& want = c.array("lr").values;
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_NEAR(schedule.lr(static_cast<std::int64_t>(k) + 1), want[k], 1e-9 * want[k]) << "step " << k + 1;
    ++met;
  }
  EXPECT_EQ(met, 9);
}

TEST(GoldenOptim, SchedulesMatchTheirFormulas) {
  int met = 0;
  for (const Case& c : cases()) {
    if (c.op != "schedule") continue;
    SCOPED_TRACE(c.name);
    const optim::Schedule schedule({.kind = optim::schedule_kind(c.text("schedule")),
                                    .lr = c.number("lr"),
                                    .min_lr = c.number("min_lr"),
                                    .warmup = c.integer("warmup"),
                                    .steps = c.integer("steps")});
    const std::vector<double>& want = c.array("lr").values;
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_NEAR(schedule.lr(static_cast<std::int64_t>(k) + 1), want[k], 1e-9 * want[k]) << "step " << k + 1;
    ++met;
  }
  EXPECT_EQ(met, 6);
}

TEST(GoldenOptim, PlateauMatchesPyTorch) {
  int met = 0;
  for (const Case& c : cases()) {
    if (c.op != "plateau") continue;
    optim::Schedule schedule({.kind = optim::ScheduleKind::kPlateau,
                              .lr = c.number("lr"),
                              .min_lr = c.number("min_lr"),
                              .factor = c.number("factor"),
                              .patience = c.integer("patience"),
                              .threshold = c.number("threshold")});
    const std::vector<double>&losses = c.array("loss").values, &want = c.array("lr").values;
    for (std::size_t k = 0; k < want.size(); ++k) {
      schedule.observe(losses[k]);
      EXPECT_NEAR(schedule.lr(static_cast<std::int64_t>(k) + 1), want[k], 1e-9 * want[k]) << "observation " << k + 1;
    }
    ++met;
  }
  EXPECT_EQ(met, 1);
}

}  // namespace
}  // namespace binade::golden
