#include "tests/optim/every_optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/amp/loss_scaler.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/nn/attention.h"
#include "binade/nn/linear.h"
#include "binade/optim/averaged_weights.h"
#include "binade/optim/device_updates.h"
#include "binade/optim/qk_clip.h"
#include "tests/error_text.h"
#include "tests/optim/toy.h"

// Tests of the guarantees that all optimizers have in common.
namespace binade::optim {
namespace {

using test::error_of;

void set_gradients(const std::vector<NamedParameter>& parameters, int t, float factor = 1) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::int64_t count = parameters[p].variable.value().numel();
    std::vector<float> g = toy::gradient(count, static_cast<std::uint32_t>(p), t);
    for (float& x : g) x *= factor;
    toy::set_gradient(parameters[p].variable, g);
  }
}

std::vector<std::vector<float>> weights(const std::vector<NamedParameter>& parameters) {
  std::vector<std::vector<float>> all;
  for (const NamedParameter& p : parameters) all.push_back(p.variable.value().to_vector<float>());
  return all;
}

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [name, value] : state.values()) {
    const auto* tensor = std::get_if<Tensor>(&value);
    copy.put(name, tensor != nullptr ? StateDict::Value(tensor->clone()) : value);
  }
  return copy;
}

TEST(EveryOptimizer, ResumesToTheSameBits) {
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime({.threads = 2});
    std::vector<NamedParameter> parameters = toy::parameters(), twins = toy::parameters();
    const std::unique_ptr<Optimizer> whole = m.make(parameters, false);
    for (int t = 1; t <= 5; ++t) set_gradients(parameters, t), whole->step();
    const StateDict saved = copy_of(whole->state());
    const std::unique_ptr<Optimizer> resumed = m.make(twins, false);
    for (std::size_t p = 0; p < twins.size(); ++p)
      twins[p].variable.state()->value.copy_from(parameters[p].variable.value());
    resumed->load_state(saved);
    for (int t = 6; t <= 9; ++t) {
      set_gradients(parameters, t), whole->step();
      set_gradients(twins, t), resumed->step();
    }
    EXPECT_EQ(weights(parameters), weights(twins));
    const StateDict a = whole->state(), b = resumed->state();
    for (const auto& [name, value] : a.values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) {
        EXPECT_EQ(tensor->to_vector<float>(), b.tensor(name).to_vector<float>()) << name;
      }
    EXPECT_THROW(Sgd(toy::parameters(), {.momentum = 0.5}).load_state(m.name == "sgd" ? StateDict() : saved),
                 CheckpointError);
  }
}

TEST(EveryOptimizer, MaximizesByTheNegativeGradient) {
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime;
    std::vector<NamedParameter> up = toy::parameters(), down = toy::parameters();
    const std::unique_ptr<Optimizer> maximizes = m.make(up, true), minimizes = m.make(down, false);
    for (int t = 1; t <= 4; ++t) {
      set_gradients(up, t, -1), maximizes->step();
      set_gradients(down, t), minimizes->step();
    }
    EXPECT_EQ(weights(up), weights(down));
    EXPECT_NE(weights(up), weights(toy::parameters()));
  }
}

TEST(EveryOptimizer, RefusesAnUpdateThatIsNotFiniteAndLeavesNoTrace) {
  for (const NamedMaker& m : every_optimizer()) {
    // Their updates do not grow with the gradient, and they do not square it.
    if (m.name == "lion" || m.name == "rprop") continue;
    SCOPED_TRACE(m.name);
    const Runtime runtime;
    std::vector<NamedParameter> parameters = toy::parameters();
    const std::unique_ptr<Optimizer> optimizer = m.make(parameters, false);
    for (int t = 1; t <= 2; ++t) set_gradients(parameters, t), optimizer->step();
    const std::vector<std::vector<float>> before = weights(parameters);
    const StateDict state = copy_of(optimizer->state());
    toy::set_gradient(parameters[2].variable, std::vector<float>(130 * 65, 3e38f));
    const StepInput input{.lr = 50};
    const UpdateProof proof = optimizer->prove_finite(input, scan_gradients(optimizer->parameters()));
    // These divide by a norm or by a magnitude, and store no squares, so their updates are about as large as the rate.
    EXPECT_EQ(proof.finite, m.name == "adamax" || m.name == "muon" || m.name == "lars") << proof.largest;
    if (!proof.finite) {
      EXPECT_EQ(proof.parameter, "p2.weight");
    }
    EXPECT_EQ(weights(parameters), before);
    const StateDict after = optimizer->state();
    for (const auto& [name, value] : state.values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) {
        EXPECT_EQ(tensor->to_vector<float>(), after.tensor(name).to_vector<float>()) << name;
      }
  }
}

/// DeviceUpdates gives a limit for gradients that a device may commit without the host. With weights near the largest
/// number of f16, updates by any gradients up to this limit must keep the weights within f16.
TEST(EveryOptimizer, BoundsHoldForTheLargestGradientTheyAllow) {
  constexpr double kLargest = 65504;
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime({.threads = 2});
    int proved = 0;
    for (std::uint32_t seed = 0; seed < 80 && m.fused; ++seed) {
      Variable weight(Tensor::from(toy::numbers(512, seed, 3e4f), Shape{16, 32}), true);
      const std::unique_ptr<Optimizer> optimizer = m.make({{"w", weight, seed % 2 == 0}}, false);
      weight.state()->low_copy(DType::f16);
      const double lr = m.lr * std::ldexp(1.0, static_cast<int>(seed % 13));
      for (int t = 1; t <= 12; ++t) {
        double size = std::ldexp(1.0, static_cast<int>((seed * 7 + static_cast<std::uint32_t>(t) * 5) % 23) - 14);
        if (t > 1) {
          DeviceUpdates device(*optimizer);
          ASSERT_TRUE(device.possible());
          const double limit = device.next({.lr = lr}).gradient_limits[0];
          if (limit < 0) break;
          if (t % 3 == 0 || size > limit) size = std::min(limit, 1e30), ++proved;
        } else {
          size = 1e-3;
        }
        std::vector<float> g = toy::numbers(512, 1000 * seed + static_cast<std::uint32_t>(t));
        for (std::size_t i = 0; i < g.size(); ++i)
          g[i] = static_cast<float>(g[i] < 0 ? -size : i % 3 == 0 ? size : size * g[i]);
        toy::set_gradient(weight, g);
        // The first step has no limit yet, so it uses the usual rate, which keeps the weights within f16.
        optimizer->step({.lr = t > 1 ? lr : m.lr});
        for (const float w : weight.value().to_vector<float>()) ASSERT_LE(std::abs(w), kLargest) << seed << " " << t;
        const StateDict state = optimizer->state();
        for (const auto& [name, value] : state.values())
          if (const auto* tensor = std::get_if<Tensor>(&value)) {
            for (const float x : tensor->to_vector<float>()) ASSERT_TRUE(std::isfinite(x)) << name << " " << t;
          }
      }
    }
    EXPECT_EQ(proved > 50, m.fused) << proved;
  }
}

TEST(EveryOptimizer, IsDecidedByADeviceIfItsRuleIsInTheKernel) {
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime;
    std::vector<NamedParameter> parameters = toy::parameters();
    const std::unique_ptr<Optimizer> optimizer = m.make(parameters, false);
    set_gradients(parameters, 1), optimizer->step();
    EXPECT_EQ(optimizer->device_can_decide(), m.fused);
    EXPECT_EQ(DeviceUpdates(*optimizer).possible(), m.fused);
    const UpdateProof proof = optimizer->prove_finite({.lr = m.lr}, scan_gradients(optimizer->parameters()));
    EXPECT_TRUE(proof.finite);
    EXPECT_EQ(proof.by_bound, m.fused);
  }
}

TEST(EveryOptimizer, AgreesOnEveryInstructionSetAndForAnyNumberOfThreads) {
  const std::string_view chosen = cpu::level().isa;
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    std::vector<std::vector<std::vector<float>>> results;
    for (const std::string_view level : cpu::isa_levels())
      for (const int threads : {1, 3}) {
        cpu::select_isa(level);
        const Runtime runtime({.threads = threads});
        std::vector<NamedParameter> parameters = toy::parameters();
        const std::unique_ptr<Optimizer> optimizer = m.make(parameters, false);
        for (int t = 1; t <= 3; ++t) set_gradients(parameters, t), optimizer->step();
        results.push_back(weights(parameters));
        if (threads > 1) {
          EXPECT_EQ(results.back(), results[results.size() - 2]) << level;
        }
        // Levels with fused multiply-adds round once less per multiply-add. Muon multiplies errors by about 100.
        for (std::size_t p = 0; p < parameters.size(); ++p)
          for (std::size_t i = 0; i < results[0][p].size(); ++i)
            ASSERT_NEAR(results.back()[p][i], results[0][p][i], 2e-5) << level << " " << p << " " << i;
      }
  }
  cpu::select_isa(chosen);
}

TEST(EveryOptimizer, TakesGroups) {
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime;
    std::vector<NamedParameter> parameters = toy::parameters();
    const std::unique_ptr<Optimizer> optimizer = m.make(parameters, false);
    EXPECT_EQ(optimizer->groups().classes(), 1u);
  }
  const Runtime runtime;
  // The parameters of a group get the same bits as from an optimizer that has the group's settings for all parameters.
  const auto check = [&]<class O, class Options>(std::type_identity<O>, Options options, Options of_group,
                                                 ParameterGroup group) {
    group.match = "p2.*";
    options.groups = {group};
    std::vector<NamedParameter> a = toy::parameters(), b = toy::parameters();
    O grouped(a, options), plain(b, of_group);
    SCOPED_TRACE(plain.kind());
    // RAdam's beta2 has no effect before its sixth update.
    for (int t = 1; t <= 8; ++t) {
      set_gradients(a, t), grouped.step();
      set_gradients(b, t), plain.step();
    }
    EXPECT_EQ(weights(a)[2], weights(b)[2]);
    EXPECT_NE(weights(a)[0], weights(b)[0]);
  };
  check(std::type_identity<Rmsprop>{}, RmspropOptions{}, RmspropOptions{.alpha = 0.5, .momentum = 0.9},
        {.momentum = 0.9, .alpha = 0.5});
  check(std::type_identity<Adagrad>{}, AdagradOptions{}, AdagradOptions{.weight_decay = 0.3}, {.weight_decay = 0.3});
  check(std::type_identity<Adadelta>{}, AdadeltaOptions{}, AdadeltaOptions{.rho = 0.5}, {.rho = 0.5});
  check(std::type_identity<Adamax>{}, AdamaxOptions{}, AdamaxOptions{.lr = 8e-3, .beta1 = 0.5},
        {.lr = 8e-3, .beta1 = 0.5});
  check(std::type_identity<NAdam>{}, NAdamOptions{}, NAdamOptions{.beta1 = 0.5}, {.beta1 = 0.5});
  check(std::type_identity<RAdam>{}, RAdamOptions{}, RAdamOptions{.beta2 = 0.9}, {.beta2 = 0.9});
  check(std::type_identity<Rprop>{}, RpropOptions{}, RpropOptions{.lr = 0.02}, {.lr = 0.02});
  check(std::type_identity<Asgd>{}, AsgdOptions{}, AsgdOptions{.alpha = 3, .weight_decay = 0.3},
        {.weight_decay = 0.3, .alpha = 3});
  check(std::type_identity<ScheduleFreeAdamW>{}, ScheduleFreeAdamWOptions{},
        ScheduleFreeAdamWOptions{.beta1 = 0.5, .weight_decay = 0.2}, {.weight_decay = 0.2, .beta1 = 0.5});
  check(std::type_identity<Adafactor>{}, AdafactorOptions{}, AdafactorOptions{.weight_decay = 0.2},
        {.weight_decay = 0.2});
  check(std::type_identity<Muon>{}, MuonOptions{}, MuonOptions{.momentum = 0.5}, {.momentum = 0.5});
  check(std::type_identity<Lamb>{}, LambOptions{}, LambOptions{.beta2 = 0.5}, {.beta2 = 0.5});
  check(std::type_identity<Lars>{}, LarsOptions{}, LarsOptions{.momentum = 0.5}, {.momentum = 0.5});
}

TEST(EveryOptimizer, WorksWithALossScaleByHand) {
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime;
    std::vector<NamedParameter> parameters = toy::parameters(), twins = toy::parameters();
    const std::unique_ptr<Optimizer> scaled = m.make(parameters, false), plain = m.make(twins, false);
    amp::LossScaler scaler({.init_scale = 1048576});
    const auto loss = [](const std::vector<NamedParameter>& list, double factor) {
      Variable total;
      for (const NamedParameter& p : list) {
        const Variable one = sum(p.variable * p.variable) * factor;
        total = total.defined() ? total + one : one;
      }
      return total;
    };
    for (int t = 0; t < 3; ++t) {
      scaler.backward(loss(parameters, 1));
      EXPECT_TRUE(scaler.step(*scaled).committed);
      backward(loss(twins, 1));
      plain->step();
      plain->zero_grad();
    }
    EXPECT_EQ(weights(parameters), weights(twins)) << "a power of two changes no bit";
    const std::vector<std::vector<float>> before = weights(parameters);
    scaler.backward(loss(parameters, 3e34));
    EXPECT_FALSE(scaler.step(*scaled).committed);
    EXPECT_EQ(weights(parameters), before);
    EXPECT_EQ(scaled->updates(), 3);
  }
}

TEST(EveryOptimizer, KeepsMomentsIn16BitsIfItTakesADType) {
  const Runtime runtime;
  const auto check = [&]<class O, class Options>(std::type_identity<O>, Options options) {
    std::vector<NamedParameter> a = toy::parameters(), b = toy::parameters();
    O full(a, options);
    options.moment_dtype = DType::bf16;
    O half(b, options);
    for (int t = 1; t <= 5; ++t) {
      set_gradients(a, t), full.step();
      set_gradients(b, t), half.step();
    }
    double sum = 0;
    for (std::size_t i = 0; i < weights(a)[2].size(); ++i) sum += std::abs(weights(a)[2][i] - weights(b)[2][i]);
    EXPECT_GT(sum, 0) << half.kind();
    // Each moment is rounded to 8 bits: steps of up to 0.05 differ by about 1 %.
    EXPECT_LT(sum / static_cast<double>(weights(a)[2].size()), 2e-3) << half.kind();
  };
  check(std::type_identity<Rmsprop>{}, RmspropOptions{.alpha = 0.9, .eps = 1e-2, .momentum = 0.5, .centered = true});
  check(std::type_identity<Adagrad>{}, AdagradOptions{});
  check(std::type_identity<Adadelta>{}, AdadeltaOptions{});
  check(std::type_identity<Adamax>{}, AdamaxOptions{.beta2 = 0.99});
  check(std::type_identity<NAdam>{}, NAdamOptions{.beta2 = 0.9});
  check(std::type_identity<RAdam>{}, RAdamOptions{.beta2 = 0.9});
  check(std::type_identity<Rprop>{}, RpropOptions{});
  check(std::type_identity<AdamW>{}, AdamWOptions{.beta2 = 0.9, .amsgrad = true});
}

TEST(EveryOptimizer, NamesABadOption) {
  const Runtime runtime;
  const auto p = [] { return toy::parameters(); };
  EXPECT_EQ(error_of([&] { Rmsprop(p(), {.alpha = 1}); }), "rmsprop: wanted alpha in [0, 1), got 1");
  EXPECT_EQ(error_of([&] { Adagrad(p(), {.lr_decay = -1}); }), "adagrad: wanted lr_decay in [0, 1000000], got -1");
  EXPECT_EQ(error_of([&] { Adadelta(p(), {.rho = 2}); }), "adadelta: wanted rho in [0, 1), got 2");
  EXPECT_EQ(error_of([&] { Adamax(p(), {.beta2 = 1}); }), "adamax: wanted beta2 in [0, 1), got 1");
  EXPECT_EQ(error_of([&] { NAdam(p(), {.momentum_decay = -1}); }),
            "nadam: wanted momentum_decay in [0, 1000000], got -1");
  EXPECT_EQ(error_of([&] { RAdam(p(), {.eps = 2}); }), "radam: wanted eps in [0, 1], got 2");
  EXPECT_EQ(error_of([&] { Rprop(p(), {.eta_minus = 1.5}); }),
            "rprop: wanted 0 < eta_minus < 1 < eta_plus, got 1.5 and 1.2");
  EXPECT_EQ(error_of([&] { Rprop(p(), {.step_min = 60}); }), "rprop: wanted 0 < step_min <= step_max, got 60 and 50");
  EXPECT_EQ(error_of([&] { Asgd(p(), {.lambd = -1}); }), "asgd: wanted lambd in [0, 1000000], got -1");
  EXPECT_EQ(error_of([&] { ScheduleFreeAdamW(p(), {.beta1 = 0}); }),
            "schedule_free_adamw: wanted beta1 in [0.001, 1), got 0");
  EXPECT_EQ(error_of([&] { Adafactor(p(), {.d = 0.5}); }), "adafactor: wanted d in [1, 1e6], got 0.5");
  EXPECT_EQ(error_of([&] { Lamb(p(), {.weight_decay = -1}); }), "lamb: wanted weight_decay in [0, 1000000], got -1");
  EXPECT_EQ(error_of([&] { Muon(p(), {.iterations = 0}); }), "muon: wanted iterations in [1, 100), got 0");
  EXPECT_EQ(error_of([&] { Muon(p(), {.adamw = ParameterMatch("nothing*")}); }),
            "muon: the option adamw, 'nothing*', selects no parameter");
  EXPECT_EQ(error_of([&] { Muon(p(), {.adamw = ParameterMatch("*")}); }),
            "muon: wanted at least one matrix beside embeddings and head, got 5 parameters that all step by AdamW; use "
            "optim::AdamW, or set the option adamw");
  EXPECT_EQ(error_of([&] { Adagrad(p(), {.groups = {{.match = "p2.*", .beta1 = 0.5}}}); }),
            "adagrad: group 'p2.*' sets beta1, which adagrad does not have");
}

// ---- averages -----------------------------------------------------------------------------------

TEST(AveragedWeightsTest, AreThoseOfTheOptimizerWhileTheScopeLives) {
  for (const NamedMaker& m : every_optimizer()) {
    SCOPED_TRACE(m.name);
    const Runtime runtime;
    std::vector<NamedParameter> parameters = toy::parameters();
    const std::unique_ptr<Optimizer> optimizer = m.make(parameters, false);
    for (int t = 1; t <= 6; ++t) set_gradients(parameters, t), optimizer->step();
    parameters[2].variable.state()->low_copy(DType::f16);
    const std::vector<std::vector<float>> trained = weights(parameters);
    const bool averages = m.name == "asgd" || m.name == "schedule-free adamw";
    ASSERT_EQ(optimizer->averages_weights(), averages);
    EXPECT_EQ(optimizer->state().contains("ema/average/p2.weight"), averages);
    {
      const AveragedWeights scope(*optimizer);
      EXPECT_EQ(weights(parameters) != trained, averages);
      EXPECT_EQ(parameters[2].variable.state()->low_copy(DType::f16).to_vector<float>(),
                parameters[2].variable.value().to(DType::f16).to_vector<float>());
      if (averages) {
        EXPECT_EQ(optimizer->state().tensor("ema/average/p2.weight").to_vector<float>(), weights(parameters)[2]);
        set_gradients(parameters, 7);
        EXPECT_EQ(
            error_of<AutogradError>([&] { optimizer->step(); }),
            "Optimizer::step: not possible while averaged weights are in the model; end the AveragedWeights scope "
            "before the step");
      }
    }
    EXPECT_EQ(weights(parameters), trained);
    EXPECT_EQ(parameters[2].variable.state()->low_copy(DType::f16).to_vector<float>(),
              parameters[2].variable.value().to(DType::f16).to_vector<float>());
  }
}

TEST(AveragedWeightsTest, AreTheWeightsBeforeTheFirstUpdate) {
  const Runtime runtime;
  std::vector<NamedParameter> parameters = toy::parameters();
  ScheduleFreeAdamW optimizer(parameters);
  const std::vector<std::vector<float>> before = weights(parameters);
  {
    const AveragedWeights scope(optimizer);
    EXPECT_EQ(weights(parameters), before);
  }
  toy::set_gradient(parameters[0].variable, toy::gradient(15, 0, 1));
  optimizer.step();
  const AveragedWeights scope(optimizer);
  EXPECT_NE(weights(parameters)[0], before[0]);
  EXPECT_EQ(weights(parameters)[2], before[2]) << "it has got no gradient";
}

// ---- numbers at the ends of the range -----------------------------------------------------------

/// The inverses of these numbers are beyond the range of f32.
TEST(LambTest, StepsHaveTheSizeOfTheirFormulaForNumbersNearTheSmallestOnes) {
  const Runtime runtime;
  for (const float small : {1e-39f, 1e-44f}) {
    const Variable weight(Tensor::full({4, 4}, small), true);
    Lamb lamb({{"w", weight}}, {.lr = 0.5});
    toy::set_gradient(weight, std::vector<float>(16, 1));
    lamb.step();  // scales the update to the norm of the weights
    for (const float w : weight.value().to_vector<float>()) EXPECT_NEAR(w, 0.5f * small, 2e-45);

    const Variable ones(Tensor::full({4, 4}, 1), true);
    Lars lars({{"w", ones}}, {.lr = 10, .trust = 1, .weight_decay = 0});
    toy::set_gradient(ones, std::vector<float>(16, small));
    lars.step();  // the rate is 10 / small
    for (const float w : ones.value().to_vector<float>()) EXPECT_NEAR(w, -9, 1e-5);
  }
}

TEST(ScheduleFreeTest, WeightsOfAveragesMayBeBeyondTheRangeOfDouble) {
  const Runtime runtime;
  for (const ScheduleFreeAdamWOptions& options :
       {ScheduleFreeAdamWOptions{.r = 100}, ScheduleFreeAdamWOptions{.warmup = 20000, .weight_lr_power = 100}}) {
    const Variable weight(Tensor::full({2, 2}, 1), true);
    ScheduleFreeAdamW optimizer({{"w", weight}}, options);
    for (int t = 1; t <= 1400; ++t) {
      toy::set_gradient(weight, std::vector<float>(4, 1));
      ASSERT_NO_THROW(optimizer.step()) << t;
    }
    // The last updates have nearly all of the weight in the average, so the average follows z.
    EXPECT_LT(weight.value().at(0), 1);
    const float z = optimizer.state().tensor("moment1/w").to_vector<float>()[0];
    EXPECT_NEAR(weight.value().at(0), z, 0.05 * (1 - z));
  }
}

// ---- Muon ---------------------------------------------------------------------------------------

TEST(MuonTest, NamesAndModulesSayWhatStepsByAdamW) {
  const Runtime runtime;
  std::vector<NamedParameter> list;
  for (const char* name :
       {"tokens.weight", "blocks.0.up.weight", "blocks.0.up.bias", "lm_head.weight", "embedding.table"})
    list.push_back({name, toy::variable(std::string_view(name).ends_with("bias") ? Shape{4} : Shape{4, 6}, 1)});
  const Muon muon(list);
  EXPECT_FALSE(muon.by_adamw("blocks.0.up.weight"));
  for (const char* name : {"tokens.weight", "blocks.0.up.bias", "lm_head.weight", "embedding.table"})
    EXPECT_TRUE(muon.by_adamw(name)) << name;
}

TEST(MuonTest, ProductsIn16BitsGiveNearlyTheSameSteps) {
  const Runtime runtime;
  std::vector<NamedParameter> a = toy::parameters(), b = toy::parameters();
  Muon full(a, {.lr = 0.02, .products = DType::f32}), half(b, {.lr = 0.02, .products = DType::bf16});
  for (int t = 1; t <= 5; ++t) {
    set_gradients(a, t), full.step();
    set_gradients(b, t), half.step();
  }
  // Muon brings each singular value to some number between 0.7 and 1.2, so that bf16 changes it by a few percent. The
  // update is 0.02 times the result.
  double largest = 0;
  for (std::size_t i = 0; i < weights(a)[2].size(); ++i)
    largest = std::max<double>(largest, std::abs(weights(a)[2][i] - weights(b)[2][i]));
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 5e-3);
}

/// Heads whose logits exceed the limit are scaled down to it; other heads do not change. Also if query heads share a
/// key head.
TEST(MuonTest, QkClipHoldsLogitsBelowTheirLimit) {
  constexpr double kLimit = 3;
  for (const std::int64_t key_heads : {4, 2}) {
    const Runtime runtime;
    nn::MultiHeadAttention attention({.dim = 16, .heads = 4, .kv_heads = key_heads, .causal = true});
    // The first query head has large weights, and so large logits.
    Tensor weight = attention.query.weight.state()->value;
    for (std::int64_t i = 0; i < 4 * 16; ++i) weight.mutable_data<float>()[i] *= 40;
    weight.bump_version();
    Muon muon(attention, {.lr = 1e-7, .weight_decay = 0, .products = DType::f32, .adamw_lr = 1e-7});
    muon.clip_logits(attention, kLimit);
    const Variable x(Tensor::from(toy::numbers(2 * 6 * 16, 1, 2), Shape{2, 6, 16}));
    const auto logits = [&] {
      attention(x);
      return muon.clips()[0]->largest();
    };
    const std::vector<double> before = logits();
    ASSERT_GT(before[0], 2 * kLimit);
    for (std::size_t h = 1; h < 4; ++h) ASSERT_LT(before[h], kLimit);
    backward(sum(attention(x)));
    muon.step();
    const std::vector<double> after = logits();
    EXPECT_NEAR(after[0], kLimit, 1e-4);
    for (std::size_t h = 1; h < 4; ++h) EXPECT_NEAR(after[h], before[h], 1e-4) << h;
    attention.eval();
    attention(Variable(Tensor::full({1, 2, 16}, 100)));
    EXPECT_EQ(muon.clips()[0]->largest(), after) << "evaluations do not count";
    EXPECT_EQ(error_of([&] { muon.clip_logits(attention, -1); }), "qk-clip: wanted a limit > 0, got -1");
  }
}

/// The last query sees all keys, the first ones see none. For these, the causal mask was once written in front of its
/// memory.
TEST(MuonTest, QkClipAcceptsMoreQueriesThanKeys) {
  const Runtime runtime;
  nn::Linear query({.in = 4, .out = 4, .bias = false}), key({.in = 4, .out = 4, .bias = false});
  const auto clip = QkClip::watching(query, key, {.query = 1, .key = 1, .causal = true, .limit = 1});
  const Tensor q = query(Variable(Tensor::from(toy::numbers(5 * 4, 1, 2), Shape{1, 5, 4}))).value();
  const Tensor k = key(Variable(Tensor::from(toy::numbers(3 * 4, 2, 2), Shape{1, 3, 4}))).value();
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t t = 0; t < 5; ++t)
    for (std::int64_t s = 0; s < 3 && s <= t - 2; ++s) {
      double logit = 0;
      for (std::int64_t d = 0; d < 4; ++d) logit += q.at(t * 4 + d) * k.at(s * 4 + d) / 2;
      largest = std::max(largest, logit);
    }
  EXPECT_NEAR(clip->largest()[0], std::max(0.0, largest), 1e-5);
}

}  // namespace
}  // namespace binade::optim
