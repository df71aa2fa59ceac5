#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "binade/amp/watch/singularity.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/permute.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/reshape.h"
#include "binade/core/ops/slice.h"
#include "binade/core/ops/softmax.h"
#include "binade/core/ops/where.h"
#include "tests/amp/lab.h"
#include "tests/amp/preflight_cases.h"

// Pre-flight and diagnosis judge an op by the facts in its description, never by its name: a user's op may have the
// name of one of Binade's ops.
namespace binade::amp {
namespace {

using preflight_cases::Case;
using preflight_cases::Features;

/// y = factor x, where x is the first of any number of inputs. Has the name of Binade's `Op`, but its OpInfo is
/// otherwise empty.
template <class Op>
struct Named {
  struct Params {
    float factor = 1;
  };
  static constexpr OpInfo info{.name = Op::info.name};
  static Tensor times(const Tensor& x, DType dtype, float factor) {
    std::vector<float> y = x.to(DType::f32).template to_vector<float>();
    for (float& v : y) v *= factor;
    return Tensor::from(y, x.shape()).to(dtype);
  }
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    return {times(in[0], ctx.store_dtype, p.factor)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (gx.needs(0)) gx.destination(0).copy_from(times(gy[0], ctx.inputs[0].grad_dtype, p.factor));
  }
};

using BuiltIn =
    ops::OpList<ops::Add, ops::Sub, ops::Mul, ops::Div, ops::Maximum, ops::Minimum, ops::Sigmoid, ops::Exp, ops::Log,
                ops::Sqrt, ops::Pow, ops::Square, ops::MulScalar, ops::DivScalar, ops::ScalarDiv, ops::Bce,
                ops::BceWithLogits, ops::KlDiv, ops::Mse, ops::Dice, ops::CrossEntropy, ops::Softmax, ops::LogSoftmax,
                ops::Attention, ops::Sum, ops::Mean, ops::Max, ops::Reshape, ops::Permute, ops::Cast, ops::Slice,
                ops::Concat, ops::Where, ops::Linear, ops::Matmul, ops::LayerNorm, ops::Embedding, ops::Dropout>;

template <class F>
void for_each_name(F&& f) {
  ops::for_each_op(BuiltIn{}, [&](auto tag) { f(Named<typename decltype(tag)::type>{}); });
}

Tensor rows(float first = 0.25f) {
  std::vector<float> x(8 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = first + 0.01f * static_cast<float>(i);
  return Tensor::from(x, {8, 6});
}

std::string told(const PreflightReport& report) {
  std::ostringstream text;
  for (const PreflightFinding& f : report.findings) text << f << '\n';
  return text.str();
}

PreflightReport preflight(const std::function<Variable(Features&)>& loss, const TrainerOptions& options = {}) {
  Case c;
  c.loss = loss;
  c.options = options;
  return preflight_cases::preflight(c);
}

TEST(UserOps, WithNamesOfBuiltInOpsCauseNoFindings) {
  for (const Policy& policy : {Policy::fp32(), Policy::fp16()})
    for_each_name([&](auto op) {
      using Op = decltype(op);
      const PreflightReport report = preflight(
          [](Features& m) {
            const Variable x = m.forward(Variable(rows()));
            const Variable one = apply_one<Op>({}, {x}), two = apply_one<Op>({}, {one, x});
            return mean(square(apply_one<Op>({0.5f}, {two})));
          },
          {.precision = policy});
      EXPECT_TRUE(report.findings.empty()) << Op::info.name << "\n" << told(report);
    });
}

/// Ops that have the names of the ops in mean(x^2) - mean(x)^2, but compute something else.
TEST(UserOps, WithTheNamesOfAOnePassVarianceCauseNoFinding) {
  const PreflightReport report = preflight([](Features& m) {
    const Variable x = m.forward(Variable(rows()));
    const Variable squares = apply_one<Named<ops::Mean>>({}, {apply_one<Named<ops::Square>>({}, {x})});
    const Variable y = apply_one<Named<ops::Sub>>({}, {squares});
    return mean(apply_one<Named<ops::Sqrt>>({}, {apply_one<Named<ops::DivScalar>>({}, {y})}));
  });
  EXPECT_TRUE(report.findings.empty()) << told(report);
}

/// Runs two steps; in the second one the result of the op is infinite.
template <class Op>
Diagnosis diagnosis() {
  toy::Lab lab({.precision = Policy::fp32()});
  std::vector<Incident> incidents;
  for (int step = 0; step < 3; ++step) {
    const float factor = step == 1 ? std::numeric_limits<float>::infinity() : 1.0f;
    lab.step([&](const toy::LabBatch& b) {
      const Variable y = apply_one<Op>({factor}, {lab.model(b.x)});
      return apply_one<toy::SquaredError>({}, {y, Variable(b.target)});
    });
  }
  incidents = lab.incidents();
  EXPECT_EQ(incidents.size(), 1u) << Op::info.name;
  return incidents.empty() ? Diagnosis{} : incidents.front().diagnosis;
}

struct Nameless {
  static constexpr OpInfo info{.name = "of_nobody"};
};

TEST(UserOps, ADiagnosisDoesNotDependOnTheName) {
  const Diagnosis wanted = diagnosis<Named<Nameless>>();
  for_each_name([&](auto op) {
    using Op = decltype(op);
    const Diagnosis d = diagnosis<Op>();
    EXPECT_EQ(d.cause, wanted.cause) << Op::info.name << ": " << name_of(d.cause);
    EXPECT_EQ(d.confidence, wanted.confidence) << Op::info.name;
    ASSERT_TRUE(d.first_bad) << Op::info.name;
    EXPECT_EQ(d.first_bad->op, Op::info.name);
    EXPECT_FALSE(d.first_bad->at_singularity) << Op::info.name;
    EXPECT_FALSE(d.first_bad->is_attention_scores) << Op::info.name;
  });
}

// ---- facts that a user's op may state ------------------------------------------------------------------

/// y = c / (b - 1) of the inputs a, b, c: singular in input 1.
struct Middle {
  struct Params {};
  static constexpr OpInfo info{.name = "middle", .inputs = "a, b, c", .singularities = {{.input = 1, .at = 1}}};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    std::vector<float> y = in[2].to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] /= static_cast<float>(in[1].at(static_cast<std::int64_t>(i)) - 1);
    return {Tensor::from(y, in[2].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    for (int i = 0; i < 3; ++i)
      if (gx.needs(i)) gx.destination(i).copy_from(gy[0]);
  }
};

TEST(UserOps, AStatedSingularityIsCheckedInItsInput) {
  const auto report = [](double shift_of_a, double shift_of_b) {
    return preflight([=](Features& m) {
      const Variable x = relu(m.forward(Variable(rows())));  // at least 0
      return mean(apply_one<Middle>({}, {x + shift_of_a, x + shift_of_b, x}));
    });
  };
  const PreflightReport in_b = report(2, 0.5), nowhere = report(0.5, 2);
  ASSERT_EQ(in_b.findings.size(), 1u) << told(in_b);
  EXPECT_EQ(in_b.findings[0].rule, "pole");
  EXPECT_EQ(in_b.findings[0].op, "middle");
  EXPECT_TRUE(nowhere.findings.empty()) << told(nowhere);
}

struct Wrong : Named<Nameless> {
  static constexpr OpInfo info{.name = "wrong", .singularities = {{.input = 7, .at = 0}}};
};

TEST(UserOps, ASingularityOfAMissingInputIsIgnored) {
  const PreflightReport report = preflight(
      [](Features& m) { return mean(apply_one<Wrong>({}, {m.forward(Variable(rows()))})); });
  EXPECT_TRUE(report.findings.empty()) << told(report);
}

/// A sigmoid under another name, which states its range if `stated`.
template <bool stated>
struct Squash {
  struct Params {
    double least = 0;
  };
  static ValueRange range(const RangeInputs&, const Params& p) { return {p.least, 1}; }
  static constexpr OpInfo info{.name = "squash", .inputs = "x", .range = stated ? typed_range<range> : nullptr};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    std::vector<float> y = in[0].to_vector<float>();
    for (float& v : y) v = static_cast<float>(p.least + (1 - p.least) / (1 + std::exp(-static_cast<double>(v))));
    return {Tensor::from(y, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.destination(0).copy_from(gy[0]);
  }
};

TEST(UserOps, AStatedRangeIsUsed) {
  const auto found = [](auto op, double least) {
    const PreflightReport report = preflight(
        [=](Features& m) { return mean(log(apply_one<decltype(op)>({least}, {m.forward(Variable(rows()))}))); });
    return std::ranges::count(report.findings, "log-pole", &PreflightFinding::rule);
  };
  EXPECT_EQ(found(Squash<true>{}, 0), 1);
  EXPECT_EQ(found(Squash<true>{}, 0.125), 0);
  EXPECT_EQ(found(Squash<false>{}, 0), 0) << "nothing is claimed but what the batch showed";
}

/// The op of docs/user-ops.md.
struct Angle {
  struct Params {
    double unit = 1;
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {  // must be declared before info
    return {p.unit * std::acos(std::min(in[0].high, 1.0)), p.unit * std::acos(std::max(in[0].low, -1.0))};
  }
  static constexpr OpInfo info{.name = "angle",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.safe_low = -1, .safe_high = 1},
                               .singularities = {{.input = 0, .at = -1, .derivative_only = true},
                                                 {.input = 0, .at = 1, .derivative_only = true}},
                               .range = typed_range<range>};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    std::vector<float> y = in[0].to_vector<float>();
    for (float& v : y) v = static_cast<float>(p.unit * std::acos(v));
    return {Tensor::from(y, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.destination(0).copy_from(gy[0]);
  }
};

TEST(UserOps, TheExampleOfTheDocumentationIsFound) {
  const auto report = [](double limit) {
    return preflight([=](Features& m) {
      const Variable cosine = clamp(m.forward(Variable(rows())), -limit, limit);
      return mean(apply_one<Angle>({}, {cosine}));
    });
  };
  const PreflightReport open = report(1), kept = report(0.99);
  ASSERT_EQ(open.findings.size(), 1u) << told(open);
  EXPECT_EQ(open.findings[0].rule, "pole");
  EXPECT_TRUE(kept.findings.empty()) << told(kept);
  const Variable x(Tensor::from(std::vector<float>{0.5f, 0.99f}, {2}));
  const Tensors read{x.value()};
  const OpCall call{.info = Angle::info};
  EXPECT_NEAR(singularity_distance(call, read).binades, std::log2(0.01 / 1e-18), 1e-3);
}

/// A user's loss, mean((x - t)^2), which states that its targets are probabilities.
struct OwnLoss : toy::SquaredError {
  static constexpr OpInfo info{.name = "own_loss",
                               .inputs = "x, targets",
                               .policy_inputs = 1,
                               .family = OpFamily::kProbabilityLoss,
                               .targets = {0, 1}};
};

TEST(UserOps, TargetsOutsideOfTheStatedRangeAreFound) {
  const auto report = [](float target) {
    return preflight([=](Features& m) {
      return apply_one<OwnLoss>({}, {m.forward(Variable(rows())), Variable(Tensor::full({8, 16}, target))});
    });
  };
  EXPECT_TRUE(report(1).findings.empty());
  const PreflightReport bad = report(255);
  ASSERT_EQ(bad.findings.size(), 1u) << told(bad);
  EXPECT_EQ(bad.findings[0].rule, "bad-target");
  EXPECT_EQ(bad.findings[0].what, "a target of the batch is 255, wanted 0 to 1");
}

/// max(scores + mask, 0): an op that accepts masks in the inputs `masks`.
template <std::uint32_t masks>
struct Hide {
  struct Params {};
  static constexpr OpInfo info{.name = "hide",
                               .inputs = "x, mask",
                               .numerics = {.non_finite = NonFinite::kMasks},
                               .policy_inputs = 1,
                               .mask_inputs = masks};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    std::vector<float> y = in[0].to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = std::max(0.0f, y[i] + static_cast<float>(in[1].at(static_cast<std::int64_t>(i))));
    return {Tensor::from(y, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.destination(0).copy_from(gy[0]);
  }
};

TEST(UserOps, AMaskIsLegalInTheStatedInputs) {
  const auto found = [](auto op) {
    const PreflightReport report = preflight([](Features& m) {
      Tensor mask = Tensor::zeros({8, 16});
      mask.mutable_data<float>()[3] = -std::numeric_limits<float>::infinity();
      return mean(apply_one<decltype(op)>({}, {m.forward(Variable(rows())), Variable(mask)}));
    });
    return std::ranges::count(report.findings, "bad-input", &PreflightFinding::rule);
  };
  EXPECT_EQ(found(Hide<0b10>{}), 0);
  EXPECT_EQ(found(Hide<0b01>{}), 1);
}

}  // namespace
}  // namespace binade::amp
