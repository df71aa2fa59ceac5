#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/optim/averaged_weights.h"
#include "binade/optim/lbfgs.h"
#include "tests/golden/golden_file.h"
#include "tests/optim/every_optimizer.h"

// Compares optimizers and schedules with PyTorch's, and with the packages and formulas that
// tests/golden/golden_optimizers.py names.
namespace binade::optim {
namespace {

using golden::Case;

// Twenty updates in f32, each rounded a few times by 2^-24 of a value near 1, against the exact result in double.
constexpr golden::Tolerance kUpdates{.rtol = 1e-5, .share = 2e-6};
// Muon's polynomial multiplies an error of a singular value by up to 3.4 in each of five iterations; its step is 0.02.
constexpr golden::Tolerance kMuon{.rtol = 1e-5, .share = 1e-5};

std::vector<Case> cases() { return golden::read(golden::folder() + "/optimizers.txt"); }

std::unique_ptr<Optimizer> make(const Case& c, const std::vector<NamedParameter>& p) {
  const double decay = c.number("weight_decay");
  const std::string& op = c.op;
  if (op == "adadelta")
    return std::make_unique<Adadelta>(p, AdadeltaOptions{.lr = 0.7, .rho = 0.8, .eps = 1e-5, .weight_decay = decay});
  if (op == "adagrad")
    return std::make_unique<Adagrad>(
        p, AdagradOptions{
               .lr = 0.05, .lr_decay = 0.1, .weight_decay = decay, .initial_accumulator_value = 0.2, .eps = 1e-8});
  if (op == "adagrad_maximize")
    return std::make_unique<Adagrad>(p, AdagradOptions{.lr = 0.05, .weight_decay = decay, .maximize = true});
  if (op == "adam_amsgrad")
    return std::make_unique<Adam>(p, AdamOptions{.lr = 0.01, .beta2 = 0.7, .weight_decay = decay, .amsgrad = true});
  if (op == "adamw_amsgrad")
    return std::make_unique<AdamW>(
        p, AdamWOptions{.lr = 0.01, .beta2 = 0.7, .weight_decay = decay, .amsgrad = true, .maximize = true});
  if (op == "adamax")
    return std::make_unique<Adamax>(p, AdamaxOptions{.lr = 0.01, .beta2 = 0.95, .weight_decay = decay});
  if (op == "nadam")
    return std::make_unique<NAdam>(
        p, NAdamOptions{.lr = 0.01, .beta2 = 0.98, .weight_decay = decay, .momentum_decay = 0.01});
  if (op == "nadam_decoupled")
    return std::make_unique<NAdam>(p, NAdamOptions{.lr = 0.01, .weight_decay = decay, .decoupled_weight_decay = true});
  if (op == "radam") return std::make_unique<RAdam>(p, RAdamOptions{.lr = 0.01, .beta2 = 0.98, .weight_decay = decay});
  if (op == "radam_decoupled")
    return std::make_unique<RAdam>(p, RAdamOptions{.lr = 0.01, .weight_decay = decay, .decoupled_weight_decay = true});
  if (op == "rmsprop")
    return std::make_unique<Rmsprop>(p, RmspropOptions{.lr = 0.01,
                                                       .alpha = 0.9,
                                                       .eps = 1e-3,
                                                       .weight_decay = decay,
                                                       .momentum = c.number("momentum"),
                                                       .centered = c.flag("centered")});
  if (op == "rprop")
    return std::make_unique<Rprop>(
        p, RpropOptions{.lr = 0.02, .eta_minus = 0.6, .eta_plus = 1.3, .step_min = 1e-3, .step_max = 0.05});
  if (op == "asgd")
    return std::make_unique<Asgd>(p,
                                  AsgdOptions{.lr = 0.05, .lambd = 0.02, .alpha = 0.6, .t0 = 6, .weight_decay = decay});
  if (op == "adafactor")
    return std::make_unique<Adafactor>(p, AdafactorOptions{.lr = 0.05, .eps1 = 1e-7, .weight_decay = decay});
  if (op == "adafactor_d")
    return std::make_unique<Adafactor>(
        p, AdafactorOptions{.lr = 0.3, .beta2_decay = -0.5, .eps1 = 1e-7, .eps2 = 0.5, .d = 1.2});
  if (op == "muon")
    return std::make_unique<Muon>(p, MuonOptions{.lr = 0.02,
                                                 .weight_decay = decay,
                                                 .products = DType::f32,
                                                 .adamw = ParameterMatch("f"),
                                                 .adamw_lr = 0.005,
                                                 .beta2 = 0.95});
  if (op == "muon_like_adamw")
    return std::make_unique<Muon>(p, MuonOptions{.lr = 0.01,
                                                 .weight_decay = decay,
                                                 .momentum = 0.8,
                                                 .nesterov = false,
                                                 .scale = MuonScale::kLikeAdamW,
                                                 .products = DType::f32,
                                                 .adamw = ParameterMatch("f"),
                                                 .adamw_lr = 0.005});
  if (op == "schedule_free")
    return std::make_unique<ScheduleFreeAdamW>(
        p, ScheduleFreeAdamWOptions{.lr = 0.02, .beta1 = 0.85, .beta2 = 0.98, .weight_decay = decay, .warmup = 5});
  if (op == "schedule_free_r")
    return std::make_unique<ScheduleFreeAdamW>(p, ScheduleFreeAdamWOptions{.lr = 0.02, .r = 1.5, .weight_lr_power = 1});
  if (op == "lamb") return std::make_unique<Lamb>(p, LambOptions{.lr = 0.02, .beta2 = 0.98, .weight_decay = decay});
  if (op == "lars") return std::make_unique<Lars>(p, LarsOptions{.lr = 0.5, .trust = 0.02, .weight_decay = decay});
  return nullptr;
}

void expect_after(const Case& c, const std::string& role, const std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& p : parameters)
    ASSERT_EQ(
        golden::difference(p.variable.value(), c.array(role + p.name), c.op.starts_with("muon") ? kMuon : kUpdates), "")
        << c.name << " " << role << p.name;
}

TEST(Torch, OptimizersMatchOverTwentySteps) {
  const Runtime runtime;
  const std::vector<Case> all = cases();
  const Case& inputs = all.front();
  ASSERT_EQ(inputs.name, "inputs");
  int met = 0;
  for (const Case& c : all) {
    if (c.op == "inputs" || c.op == "rule" || c.op == "lbfgs") continue;
    std::vector<NamedParameter> parameters;
    for (const char* name : {"w", "f", "b"}) {
      const Variable v(inputs.array(std::string("init.") + name).tensor(DType::f32), true);
      parameters.push_back({name, v, decays_by_rank(v)});
    }
    const std::unique_ptr<Optimizer> optimizer = make(c, parameters);
    ASSERT_TRUE(optimizer) << "no optimizer " << c.op;
    for (int step = 1; step <= 20; ++step) {
      for (const NamedParameter& p : parameters) {
        Variable::State& state = *p.variable.state();
        state.grad.copy_from(inputs.array("grad." + std::to_string(step) + "." + p.name).tensor(DType::f32));
        state.grad_defined = true;
      }
      optimizer->step();
      const std::string role = std::to_string(step) + ".";
      if (c.has("after." + role + "w")) expect_after(c, "after." + role, parameters);
      if (c.has("average." + role + "w")) {
        const AveragedWeights scope(*optimizer);
        expect_after(c, "average." + role, parameters);
      }
    }
    ++met;
  }
  EXPECT_EQ(met, 24);
}

TEST(Torch, LbfgsMatchesOverFiveCalls) {
  const Runtime runtime;
  int met = 0;
  for (const Case& c : cases()) {
    if (c.op != "lbfgs") continue;
    SCOPED_TRACE(c.name);
    const Variable x(c.array("in.x").tensor(DType::f32)), y(c.array("in.y").tensor(DType::f32));
    const Variable w(c.array("init.w").tensor(DType::f32), true), bias(c.array("init.c").tensor(DType::f32), true);
    Lbfgs optimizer(std::vector<NamedParameter>{{"w", w}, {"c", bias}}, {.lr = c.number("lr"),
                                                                         .max_iter = c.integer("max_iter"),
                                                                         .history_size = c.integer("history_size"),
                                                                         .strong_wolfe = c.flag("strong_wolfe")});
    for (int call = 1; call <= 5; ++call) {
      const double loss = optimizer.step([&] {
        const Variable error = tanh(linear(x, w, bias)) - y;
        return mean(error * error) * 0.5;
      });
      const std::string n = std::to_string(call);
      // PyTorch itself, with weights and gradients rounded to f32 in each evaluation, differs from the results in
      // double by up to 2.7e-6 in a loss and 2.2e-5 in a weight (20 draws), because differences of gradients are
      // divided by each other.
      EXPECT_NEAR(loss, c.array("loss." + n).values[0], 5e-6) << call;
      for (const auto& [name, v] : {std::pair("w", w), {"c", bias}})
        EXPECT_EQ(golden::difference(v.value(), c.array("after." + n + "." + name), {.rtol = 5e-5, .share = 5e-5}), "")
            << call << " " << name;
    }
    ++met;
  }
  EXPECT_EQ(met, 2);
}

Schedule rule_of(const std::string& name) {
  using enum Schedule::Cycle;
  if (name == "rule.polynomial") return Schedule::polynomial(0.01, 20, 1.5);
  if (name == "rule.constant_then") return Schedule::constant_then(0.01, 0.25, 6);
  if (name == "rule.ramp") return Schedule::ramp(0.01, 0.2, 0.7, 9);
  if (name == "rule.multiplicative")
    return Schedule::multiplicative(0.01, [](std::int64_t k) { return (k - 1) % 3 != 0 ? 0.9 : 0.8; });
  if (name == "rule.cyclic.triangular") return Schedule::cyclic(0.01, 0.001, 4, 3);
  if (name == "rule.cyclic.triangular2") return Schedule::cyclic(0.01, 0.001, 4, 0, kTriangular2);
  if (name == "rule.cyclic.exp_range") return Schedule::cyclic(0.01, 0.001, 5, 0, kExpRange, 0.9);
  if (name == "rule.sequential")
    return Schedule::sequential({Schedule::ramp(0.01, 0.1, 1, 5), Schedule::exponential(0.01, 0.9),
                                 Schedule::constant_then(0.01, 0.5, 4)},
                                {5, 15});
  if (name == "rule.chained")
    return Schedule::chained({Schedule::constant_then(0.01, 0.5, 8), Schedule::exponential(1, 0.9)});
  if (name == "rule.inverse_sqrt") return Schedule::inverse_sqrt(0.01, 6);
  throw ArgumentError("no schedule " + name);
}

TEST(Torch, SchedulesMatch) {
  int met = 0;
  for (const Case& c : cases()) {
    if (c.op != "rule") continue;
    const Schedule schedule = rule_of(c.name);
    const std::vector<double>& want = c.array("lr").values;
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_NEAR(schedule.lr(static_cast<std::int64_t>(k) + 1), want[k], 1e-9 * want[k] + 1e-18)
          << c.name << " " << k + 1;
    ++met;
  }
  EXPECT_EQ(met, 10);
}

}  // namespace
}  // namespace binade::optim
