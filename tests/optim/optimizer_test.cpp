#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "binade/core/error.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"
#include "binade/optim/adam.h"
#include "binade/optim/lion.h"
#include "binade/optim/sgd.h"
#include "tests/error_text.h"
#include "tests/optim/every_optimizer.h"
#include "tests/optim/toy.h"

namespace binade::optim {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 20;

/// Weights and moments of one parameter in double, which a Rule updates.
struct Reference {
  std::vector<double> w, m, v;
};
using Rule = std::function<void(Reference&, const std::vector<double>& g, bool decays, int t)>;

/// Runs kSteps updates of the optimizer and of the formula, and compares. In f32 an update has an error of a few ulps
/// of its largest term: after 20 updates less than 1e-5 of the weights (of size 1) and of the size of each moment.
void expect_matches(Optimizer& optimizer, const std::vector<NamedParameter>& parameters, const Rule& rule, double lr,
                    double tolerance = 1e-5) {
  std::vector<Reference> references;
  for (const NamedParameter& p : parameters) {
    const std::vector<double> w = toy::widened(p.variable.value().to_vector<float>());
    references.push_back({w, std::vector<double>(w.size()), std::vector<double>(w.size())});
  }
  for (int t = 1; t <= kSteps; ++t) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::vector<float> g = toy::gradient(parameters[p].variable.value().numel(), static_cast<std::uint32_t>(p),
                                                 t);
      toy::set_gradient(parameters[p].variable, g);
      rule(references[p], toy::widened(g), parameters[p].decays, t);
    }
    optimizer.step({.lr = lr});
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::vector<float> w = parameters[p].variable.value().to_vector<float>();
    for (std::size_t i = 0; i < w.size(); ++i)
      ASSERT_NEAR(w[i], references[p].w[i], tolerance) << parameters[p].name << " " << i;
  }
}

class OptimizerFormula : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 3, .threads = 2}};
  std::vector<NamedParameter> parameters_ = toy::parameters();
};

TEST_F(OptimizerFormula, PlainSgdSubtractsTheGradient) {
  Sgd optimizer(parameters_, {.lr = 0.1, .weight_decay = 0.01});
  expect_matches(
      optimizer, parameters_,
      [](Reference& r, const std::vector<double>& g, bool decays, int) {
        for (std::size_t i = 0; i < g.size(); ++i) r.w[i] -= 0.1 * (g[i] + (decays ? 0.01 : 0) * r.w[i]);
      },
      0.1);
}

TEST_F(OptimizerFormula, SgdWithMomentumAndDampening) {
  Sgd optimizer(parameters_, {.momentum = 0.9, .dampening = 0.25, .weight_decay = 0.1});
  expect_matches(
      optimizer, parameters_,
      [](Reference& r, const std::vector<double>& g, bool decays, int t) {
        for (std::size_t i = 0; i < g.size(); ++i) {
          const double d = g[i] + (decays ? 0.1 : 0) * r.w[i];
          r.m[i] = t == 1 ? d : 0.9 * r.m[i] + 0.75 * d;
          r.w[i] -= 0.05 * r.m[i];
        }
      },
      0.05);
}

TEST_F(OptimizerFormula, NesterovMatchesItsFormula) {
  Sgd optimizer(parameters_, {.momentum = 0.8, .nesterov = true});
  expect_matches(
      optimizer, parameters_,
      [](Reference& r, const std::vector<double>& g, bool, int t) {
        for (std::size_t i = 0; i < g.size(); ++i) {
          r.m[i] = t == 1 ? g[i] : 0.8 * r.m[i] + g[i];
          r.w[i] -= 0.05 * (g[i] + 0.8 * r.m[i]);
        }
      },
      0.05);
}

void adam_reference(Reference& r, const std::vector<double>& g, double lr, double l2, double keep, int t) {
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double d = g[i] + l2 * r.w[i];
    r.w[i] *= keep;
    r.m[i] = 0.9 * r.m[i] + 0.1 * d;
    r.v[i] = 0.99 * r.v[i] + 0.01 * d * d;
    const double m = r.m[i] / (1 - std::pow(0.9, t)), v = r.v[i] / (1 - std::pow(0.99, t));
    r.w[i] -= lr * m / (std::sqrt(v) + 1e-6);
  }
}

TEST_F(OptimizerFormula, AdamAddsDecayToTheGradient) {
  Adam optimizer(parameters_, {.beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1});
  expect_matches(
      optimizer, parameters_,
      [](Reference& r, const std::vector<double>& g, bool decays, int t) {
        adam_reference(r, g, 0.01, decays ? 0.1 : 0, 1, t);
      },
      0.01);
}

TEST_F(OptimizerFormula, AdamWDecaysTheWeightOnly) {
  AdamW optimizer(parameters_, {.beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1});
  expect_matches(
      optimizer, parameters_,
      [](Reference& r, const std::vector<double>& g, bool decays, int t) {
        adam_reference(r, g, 0.01, 0, decays ? 1 - 0.01 * 0.1 : 1, t);
      },
      0.01);
}

TEST_F(OptimizerFormula, LionUpdatesBySign) {
  Lion optimizer(parameters_, {.weight_decay = 0.3});
  expect_matches(
      optimizer, parameters_,
      [](Reference& r, const std::vector<double>& g, bool decays, int) {
        for (std::size_t i = 0; i < g.size(); ++i) {
          const double c = 0.9 * r.m[i] + 0.1 * g[i];
          r.w[i] *= decays ? 1 - 0.001 * 0.3 : 1;
          r.w[i] -= 0.001 * (c > 0 ? 1 : c < 0 ? -1 : 0);
          r.m[i] = 0.99 * r.m[i] + 0.01 * g[i];
        }
      },
      0.001);
}

TEST_F(OptimizerFormula, ScaleAndClipFactorsAreUndoneInThePass) {
  std::vector<NamedParameter> twins = toy::parameters();
  AdamW scaled(parameters_), plain(twins);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    std::vector<float> g = toy::gradient(parameters_[p].variable.value().numel(), static_cast<std::uint32_t>(p), 1);
    toy::set_gradient(twins[p].variable, g);
    for (float& x : g) x *= 1024;
    toy::set_gradient(parameters_[p].variable, g);
  }
  scaled.step({.inverse_scale = 1.0 / 4096, .clip_factor = 4, .lr = 0.01});
  plain.step({.lr = 0.01});
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    EXPECT_EQ(parameters_[p].variable.value().to_vector<float>(), twins[p].variable.value().to_vector<float>());
}

TEST_F(OptimizerFormula, ARefusedUpdateChangesNothing) {
  AdamW optimizer(parameters_);
  for (const NamedParameter& p : parameters_)
    toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 1, 1));
  const std::vector<float> before = parameters_[2].variable.value().to_vector<float>();
  optimizer.step({.commit = false, .lr = 1});
  EXPECT_EQ(parameters_[2].variable.value().to_vector<float>(), before);
  EXPECT_EQ(optimizer.updates(), 0);
  const StateDict state = optimizer.state();
  for (const auto& [name, value] : state.values()) {
    if (const auto* moment = std::get_if<Tensor>(&value)) {
      for (const float x : moment->to_vector<float>()) ASSERT_EQ(x, 0.0f) << name;
    }
  }
}

TEST_F(OptimizerFormula, AParameterWithoutAGradientIsUnchanged) {
  AdamW optimizer(parameters_, {.weight_decay = 0.5});
  toy::set_gradient(parameters_[0].variable, toy::gradient(15, 0, 1));
  const std::vector<float> before = parameters_[2].variable.value().to_vector<float>();
  optimizer.step({.lr = 0.1});
  EXPECT_EQ(parameters_[2].variable.value().to_vector<float>(), before);
  EXPECT_EQ(optimizer.state().integers("parameter_updates"), (StateDict::Integers{1, 0, 0, 0, 0}));
}

TEST_F(OptimizerFormula, SixteenBitCopiesAreTheRoundedMasters) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<NamedParameter> parameters = toy::parameters();
    AdamW optimizer(parameters);
    parameters[2].variable.state()->low_copy(dtype);
    for (int t = 1; t <= 3; ++t) {
      for (const NamedParameter& p : parameters)
        toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 1, t));
      optimizer.step({.lr = 0.01});
      Variable::State& state = *parameters[2].variable.state();
      const void* written = state.low.raw();
      EXPECT_EQ(state.low_version, state.value.version()) << "the copy must count as current";
      EXPECT_EQ(state.low_copy(dtype).raw(), written);
      EXPECT_EQ(state.low.to_vector<float>(), state.value.to(dtype).to_vector<float>());
    }
  }
}

TEST_F(OptimizerFormula, SixteenBitMomentsStayNearTheF32Ones) {
  // Adam with bf16 moments rounds each moment to 8 bits per step, so updates differ by about 1 %.
  std::vector<NamedParameter> twins = toy::parameters();
  AdamW half(parameters_, {.beta2 = 0.9, .eps = 1e-6, .moment_dtype = DType::bf16}),
      full(twins, {.beta2 = 0.9, .eps = 1e-6});
  for (int t = 1; t <= 10; ++t) {
    for (std::size_t p = 0; p < twins.size(); ++p)
      for (const Variable& v : {parameters_[p].variable, twins[p].variable})
        toy::set_gradient(v, toy::gradient(v.value().numel(), static_cast<std::uint32_t>(p), t));
    half.step({.lr = 0.01});
    full.step({.lr = 0.01});
  }
  const std::vector<float> a = parameters_[2].variable.value().to_vector<float>();
  const std::vector<float> b = twins[2].variable.value().to_vector<float>();
  double largest = 0, sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max<double>(largest, std::abs(a[i] - b[i]));
    sum += std::abs(a[i] - b[i]);
  }
  EXPECT_LT(sum / static_cast<double>(a.size()), 1e-3) << "of a way of up to 0.1";
  EXPECT_LT(largest, 2e-2);
  EXPECT_GT(largest, 0) << "moments were not rounded at all";
}

TEST(OptimizerOptions, SettingsThatRoundToZeroIn16BitsAreErrorsWithTheLeastValue) {
  const Runtime runtime;
  const auto text = [](const std::function<void()>& make) -> std::string {
    try {
      make();
    } catch (const ArgumentError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(text([] { AdamW(toy::parameters(), {.moment_dtype = DType::f16}); }).find("use at least 5.96"),
            std::string::npos);
  EXPECT_NE(text([] { AdamW(toy::parameters(), {.moment_dtype = DType::bf16}); }).find("use at most 0.99609375"),
            std::string::npos);
  EXPECT_EQ(text([] { AdamW(toy::parameters(), {.beta2 = 0.99609375, .moment_dtype = DType::bf16}); }), "accepted");
  EXPECT_EQ(text([] { AdamW(toy::parameters(), {.eps = 5.97e-8, .moment_dtype = DType::f16}); }), "accepted");
  EXPECT_NE(text([] {
              Adam(toy::parameters(), {.eps = 1e-4, .weight_decay = 1e-9, .moment_dtype = DType::f16});
            }).find("weight_decay"),
            std::string::npos);
  EXPECT_NE(text([] { Sgd(toy::parameters(), {.nesterov = true}); }).find("nesterov"), std::string::npos);
  EXPECT_NE(text([] { AdamW(toy::parameters(), {.lr = std::nan("")}); }).find("lr"), std::string::npos);
}

TEST(UpdateProof, AnUpdateBeyondF16IsRefusedBeforeItIsWritten) {
  const Runtime runtime;
  Variable weight(Tensor::full({4, 4}, 65000.0), true);
  Sgd optimizer({{"head.weight", weight, true}});
  weight.state()->low_copy(DType::f16);
  toy::set_gradient(weight, std::vector<float>(16, -1.0f));
  EXPECT_TRUE(optimizer.prove_finite({.lr = 500}, scan_gradients(optimizer.parameters())).finite);
  const UpdateProof proof = optimizer.prove_finite({.lr = 510}, scan_gradients(optimizer.parameters()));
  EXPECT_FALSE(proof.finite);
  EXPECT_EQ(proof.parameter, "head.weight");
  EXPECT_EQ(proof.limit, 65504.0);
  EXPECT_EQ(weight.value().at(0), 65000.0);
}

TEST(UpdateProof, UsesBoundsAfterOneUpdateAndDetectsOverflow) {
  const Runtime runtime;
  for (const bool adam : {false, true}) {
    Variable weight = toy::variable({8, 8}, 1);
    std::unique_ptr<Optimizer> optimizer;
    if (adam)
      optimizer = std::make_unique<AdamW>(std::vector<NamedParameter>{{"w", weight, true}});
    else
      optimizer = std::make_unique<Sgd>(std::vector<NamedParameter>{{"w", weight, true}}, SgdOptions{.momentum = 0.9});
    toy::set_gradient(weight, toy::gradient(64, 1, 1));
    EXPECT_FALSE(optimizer->prove_finite({.lr = 0.1}, scan_gradients(optimizer->parameters())).by_bound);
    optimizer->step({.lr = 0.1});
    const UpdateProof proof = optimizer->prove_finite({.lr = 0.1}, scan_gradients(optimizer->parameters()));
    EXPECT_TRUE(proof.finite && proof.by_bound);
    // The gradient 1e38 is finite, but its square (Adam) and 1e6 times it (SGD) are not.
    toy::set_gradient(weight, std::vector<float>(64, 1e38f));
    EXPECT_FALSE(optimizer->prove_finite({.lr = 1e6}, scan_gradients(optimizer->parameters())).finite);
  }
}

/// The bounds hold for weights that updates have written. Others may write larger ones.
TEST(UpdateProof, WeightsThatSomethingElseHasWrittenAreReadAgain) {
  const Runtime runtime;
  Variable weight = toy::variable({8, 8}, 1);
  Sgd optimizer(std::vector<NamedParameter>{{"w", weight, true}}, SgdOptions{});
  const auto by_bound = [&] {
    return optimizer.prove_finite({.lr = 0.1}, scan_gradients(optimizer.parameters())).by_bound;
  };
  for (int update = 0; update < 3; ++update) {
    toy::set_gradient(weight, toy::gradient(64, 1, 1));
    EXPECT_EQ(by_bound(), update > 0);
    optimizer.step({.lr = 0.1});
  }
  weight.state()->value.fill(3e38);
  toy::set_gradient(weight, std::vector<float>(64, -1e38f));
  EXPECT_FALSE(by_bound());
  EXPECT_FALSE(optimizer.prove_finite({.lr = 1}, scan_gradients(optimizer.parameters())).finite);
  weight.state()->value.fill(1);
  toy::set_gradient(weight, toy::gradient(64, 1, 1));
  optimizer.step({.lr = 0.1});
  toy::set_gradient(weight, toy::gradient(64, 1, 1));
  EXPECT_TRUE(by_bound()) << "known again after an update";
}

TEST(GradientScan, NormDoesNotOverflowAndFlagsDistinguishInfFromNan) {
  const Runtime runtime;
  std::vector<NamedParameter> parameters = toy::parameters();
  FlatParameters flat(parameters);
  for (const NamedParameter& p : parameters)
    toy::set_gradient(p.variable, std::vector<float>(static_cast<std::size_t>(p.variable.value().numel()), 1e30f));
  GradientScan scan = scan_gradients(flat);
  EXPECT_TRUE(scan.finite());
  // Tolerance: at most 4096 roundings of half an ulp, in practice far fewer.
  EXPECT_NEAR(scan.norm() / (1e30 * std::sqrt(static_cast<double>(flat.count()))), 1.0, 1e-5);
  toy::set_gradient(parameters[1].variable, {1, 2, INFINITY, 0, 0, 0, 0});
  scan = scan_gradients(flat);
  EXPECT_FALSE(scan.finite());
  EXPECT_FALSE(scan.has_nan());
  EXPECT_EQ(scan.words[1], 0x7f800000u);
  EXPECT_LT(scan.words[0], 0x7f800000u);
  toy::set_gradient(parameters[4].variable, [] {
    std::vector<float> g(4099, 0.5f);
    g.back() = std::nanf("");
    return g;
  }());
  EXPECT_TRUE(scan_gradients(flat).has_nan());
  EXPECT_TRUE(std::isnan(scan_gradients(flat).norm()));
}

TEST(GradientScan, NormMatchesDoubleOverMagnitudes) {
  const Runtime runtime;
  for (const float size : {1e-38f, 1e-20f, 1e-10f, 1e-9f, 1.0f, 1e9f, 1e10f, 1e18f, 1e37f}) {
    std::vector<NamedParameter> parameters = toy::parameters();
    FlatParameters flat(parameters);
    double sum = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      std::vector<float> g = toy::gradient(parameters[p].variable.value().numel(), static_cast<std::uint32_t>(p), 2);
      for (float& x : g) sum += std::pow(static_cast<double>(x *= size), 2);
      toy::set_gradient(parameters[p].variable, g);
    }
    // 4096 floats in 32 lanes: 128 additions per lane and a tree of five, with an error of at most 2^-24 each.
    EXPECT_NEAR(scan_gradients(flat).norm() / std::sqrt(sum), 1.0, 133 * 0x1p-24) << size;
  }
}

TEST(FlatParameters, VariablesBecomeAlignedViewsWithTheirValues) {
  const Runtime runtime;
  std::vector<NamedParameter> parameters = toy::parameters();
  std::vector<std::vector<float>> before;
  for (const NamedParameter& p : parameters) before.push_back(p.variable.value().to_vector<float>());
  FlatParameters flat(parameters);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    EXPECT_EQ(parameters[p].variable.value().to_vector<float>(), before[p]);
    EXPECT_TRUE(parameters[p].variable.value().shares_storage_with(parameters[0].variable.value()));
    const auto offset = reinterpret_cast<std::uintptr_t>(parameters[p].variable.value().raw()) -
                        reinterpret_cast<std::uintptr_t>(parameters[0].variable.value().raw());
    EXPECT_EQ(offset % 256, 0u);
  }
}

TEST(FlatParameters, ParametersOfOneNameInSiblingModulesAreAdjacent) {
  const Runtime runtime;
  const std::vector<std::string> names = {"a.query.weight", "a.query.bias", "a.key.weight", "a.key.bias", "norm.weight",
                                          "a.value.weight", "a.value.bias", "b.key.weight", "loose"};
  std::vector<NamedParameter> parameters;
  for (const std::string& name : names)
    parameters.push_back({name, toy::variable(name.ends_with("bias") ? Shape{128} : Shape{16, 16}, 1)});
  FlatParameters flat(parameters);
  std::vector<std::string> listed;
  for (const FlatParameters::Slice& slice : flat.slices()) listed.push_back(slice.name);
  EXPECT_EQ(listed, names) << "as they were given: checkpoints list moments so";
  std::vector<std::pair<std::int64_t, std::string>> lie;
  for (const FlatParameters::Slice& slice : flat.slices()) lie.emplace_back(slice.begin, slice.name);
  std::ranges::sort(lie);
  std::vector<std::string> order;
  for (const auto& [begin, name] : lie) order.push_back(name);
  EXPECT_EQ(order, (std::vector<std::string>{"a.query.weight", "a.key.weight", "a.value.weight", "a.query.bias",
                                             "a.key.bias", "a.value.bias", "norm.weight", "b.key.weight", "loose"}));
  const auto gap = [&](auto&& tensor_of) {
    return static_cast<const std::byte*>(tensor_of(2).raw()) - static_cast<const std::byte*>(tensor_of(0).raw());
  };
  EXPECT_EQ(gap([&](std::size_t i) { return parameters[i].variable.value(); }), 256 * 4);
  EXPECT_EQ(gap([&](std::size_t i) { return flat.gradient_of(i); }), 256 * 4);
  for (const NamedParameter& p : parameters) p.variable.state()->low_copy(DType::bf16);
  EXPECT_EQ(gap([&](std::size_t i) { return parameters[i].variable.state()->low; }), 256 * 2);
  flat.store_weights_in(DType::f16);
  EXPECT_EQ(gap([&](std::size_t i) { return parameters[i].variable.value(); }), 256 * 2);
}

TEST(FlatParameters, ATiedParameterIsStoredAndUpdatedOnce) {
  const Runtime runtime;
  const Variable table = toy::variable({6, 4}, 1);
  Sgd optimizer({{"tokens.weight", table, true}, {"head.weight", table, true}}, {.lr = 1});
  ASSERT_EQ(optimizer.parameters().size(), 1u);
  EXPECT_EQ(optimizer.parameters().slices()[0].name, "tokens.weight");
  const float before = static_cast<float>(table.value().at(0));
  toy::set_gradient(table, std::vector<float>(24, 0.5f));
  optimizer.step();
  EXPECT_EQ(static_cast<float>(table.value().at(0)), before - 0.5f);
}

TEST(OptimizerState, ResumesToTheSameBits) {
  const Runtime runtime;
  std::vector<NamedParameter> parameters = toy::parameters(), twins = toy::parameters();
  AdamW optimizer(parameters), twin(twins);
  const auto run = [](AdamW& o, std::vector<NamedParameter>& list, int from, int to) {
    for (int t = from; t <= to; ++t) {
      for (const NamedParameter& p : list)
        toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 2, t));
      o.step({.lr = 0.01});
    }
  };
  run(optimizer, parameters, 1, 5);
  for (std::size_t p = 0; p < twins.size(); ++p)
    twins[p].variable.state()->value.copy_from(parameters[p].variable.value());
  twin.load_state(optimizer.state());
  run(optimizer, parameters, 6, 9);
  run(twin, twins, 6, 9);
  for (std::size_t p = 0; p < twins.size(); ++p)
    EXPECT_EQ(parameters[p].variable.value().to_vector<float>(), twins[p].variable.value().to_vector<float>());
  Sgd other(toy::parameters());
  EXPECT_THROW(other.load_state(optimizer.state()), CheckpointError);
}

/// Variants of an optimizer may have states with the same tensors, but with another meaning.
TEST(OptimizerState, OfAnotherRuleIsRefused) {
  const Runtime runtime;
  const std::vector<NamedMaker> makers = every_optimizer();
  int refused = 0;
  for (const NamedMaker& from : makers)
    for (const NamedMaker& to : makers) {
      const std::unique_ptr<Optimizer> saved = from.make(toy::parameters(), false),
                                       loaded = to.make(toy::parameters(), false);
      if (saved->kind() != loaded->kind()) continue;
      SCOPED_TRACE(fmt::format("{} -> {}", from.name, to.name));
      if (from.name == to.name) {
        loaded->load_state(saved->state());
        continue;
      }
      ++refused;
      EXPECT_THAT(test::error_of<CheckpointError>([&] { loaded->load_state(saved->state()); }),
                  HasSubstr(fmt::format("{}: the checkpoint was made with the rule '", saved->kind())));
    }
  EXPECT_EQ(refused, 4 * 3 + 2 + 2) << "rmsprop, adam, adamw";
  Sgd plain(toy::parameters()), momentum(toy::parameters(), {.momentum = 0.9});
  EXPECT_EQ(test::error_of<CheckpointError>([&] { plain.load_state(momentum.state()); }),
            "sgd: the checkpoint was made with the rule 'momentum', the options of this run give 'plain'; use the same "
            "options, or start from its weights alone");
}

TEST(OptimizerState, OfAnEarlierVersionDoesNotNameTheRule) {
  const Runtime runtime;
  Rmsprop optimizer(toy::parameters(), {.momentum = 0.9});
  const StateDict state = optimizer.state();
  StateDict old;
  for (const auto& [name, value] : state.values())
    if (name != "rule") old.put(name, value);
  EXPECT_NO_THROW(optimizer.load_state(old));
}

TEST(OptimizerThreads, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<std::vector<float>> results;
  std::vector<double> norms;
  for (const int threads : {1, 2, 3, 8}) {
    const Runtime runtime({.threads = threads});
    std::vector<NamedParameter> parameters = toy::parameters();
    AdamW optimizer(parameters);
    for (int t = 1; t <= 4; ++t) {
      for (const NamedParameter& p : parameters)
        toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 3, t));
      norms.push_back(scan_gradients(optimizer.parameters()).norm());
      optimizer.step({.lr = 0.01});
    }
    results.push_back(parameters[2].variable.value().to_vector<float>());
    EXPECT_EQ(results.back(), results.front()) << threads;
    EXPECT_EQ(norms[norms.size() - 1], norms[3]) << threads;
  }
}

TEST(OptimizerKernelLevels, EveryKernelLevelGivesTheSameUpdateExceptForFusedMultiplyAdds) {
  const std::string_view chosen = cpu::level().isa;
  std::vector<std::vector<float>> results;
  std::vector<double> norms;
  for (const std::string_view level : cpu::isa_levels()) {
    cpu::select_isa(level);
    const Runtime runtime;
    std::vector<NamedParameter> parameters = toy::parameters();
    AdamW optimizer(parameters, {.eps = 1e-6, .weight_decay = 0.1});
    parameters[2].variable.state()->low_copy(DType::f16);
    for (int t = 1; t <= 3; ++t) {
      for (const NamedParameter& p : parameters)
        toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 4, t));
      norms.push_back(scan_gradients(optimizer.parameters()).norm());
      optimizer.step({.lr = 0.01});
    }
    results.push_back(parameters[2].variable.value().to_vector<float>());
    EXPECT_EQ(parameters[2].variable.state()->low.to_vector<float>(),
              parameters[2].variable.value().to(DType::f16).to_vector<float>())
        << level;
    EXPECT_NEAR(norms.back() / norms[2], 1, 1e-6) << level;
    // Levels with fused multiply-adds round once less: a few ulps of weights of size 1 after three updates.
    for (std::size_t i = 0; i < results[0].size(); ++i) ASSERT_NEAR(results.back()[i], results[0][i], 1e-6) << level;
  }
  cpu::select_isa(chosen);
}

TEST(WeightsWithoutMasters, AreRoundedStochasticallyAndKeepTheirMean) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Runtime runtime({.seed = 5});
    Variable weight(Tensor::full({100, 1000}, 1.0), true), bias(Tensor::full({3}, 1.0), true);
    Sgd optimizer({{"weight", weight, true}, {"bias", bias, false}});
    optimizer.store_weights_in(dtype, true);
    ASSERT_EQ(weight.dtype(), dtype);
    EXPECT_EQ(bias.dtype(), DType::f32) << "vectors keep f32";
    // The update is a tenth of the spacing of numbers at 1. Rounding to nearest would lose it; here the mean must show
    // it.
    const double spacing = std::ldexp(1.0, -range_of(dtype).mantissa_bits);
    toy::set_gradient(weight, std::vector<float>(100000, 1.0f));
    optimizer.step({.lr = spacing / 10});
    double mean = 0;
    for (const float w : weight.value().to_vector<float>()) mean += w / 100000.0;
    // Below 1 the spacing is half as large, so each element moves with probability 0.2, and the mean has a standard
    // deviation of 0.4 x spacing / 2 / sqrt(1e5). Tolerance: six standard deviations.
    EXPECT_NEAR(mean, 1 - spacing / 10, 6 * 0.4 * spacing / 2 / std::sqrt(1e5));
  }
}

/// A checkpoint contains the stored 16-bit weight only. A copy made from the f32 result of the update would contain
/// bits that a resumed run does not have.
TEST(WeightsWithoutMasters, ACopyInTheOther16BitDtypeIsMadeFromTheStoredWeight) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool stochastic : {true, false}) {
      const DType other = dtype == DType::f16 ? DType::bf16 : DType::f16;
      const Runtime runtime({.seed = 5});
      const std::vector<NamedParameter> parameters = toy::parameters();
      AdamW optimizer(parameters);
      optimizer.store_weights_in(dtype, stochastic);
      const Variable weight = parameters[2].variable;
      Variable::State& state = *weight.state();
      state.low_copy(other);  // an op under a precision override reads such a copy
      for (int t = 1; t <= 3; ++t) {
        for (const NamedParameter& p : parameters)
          toy::set_gradient(p.variable, toy::gradient(p.variable.value().numel(), 1, t));
        optimizer.step({.lr = 0.01});
        EXPECT_EQ(state.low_copy(other).to_vector<float>(), weight.value().to(other).to_vector<float>())
            << name_of(dtype) << " read in " << name_of(other) << ", step " << t;
      }
    }
}

}  // namespace
}  // namespace binade::optim
