#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "binade/amp/incident/first_bad.h"
#include "binade/autograd/functions.h"
#include "binade/autograd/recompute.h"
#include "binade/core/math.h"
#include "binade/core/step_context.h"
#include "tests/autograd/test_ops.h"

// Two consecutive linear layers: `up`, with an activation, and `down`. The product that computes the data gradient of
// `down` multiplies it by the activation derivative before it stores it (GradSink::activation_derivative). The input of
// `down` is recomputed instead of saved (OpContext::save_input). `together` uses both; `apart` has an op between the
// layers, which disables both.
namespace binade {
namespace {

constexpr std::int64_t kRows = 37, kWidth = 24, kHidden = 70;
constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh};

/// y = x, in the memory of x. Between two layers, it disables the fusion.
struct Pass {
  struct Params {};
  static constexpr OpInfo info{.name = "pass", .precision = PrecisionClass::kAsIs};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) { return {in[0]}; }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};
Variable pass(const Variable& x) { return apply_one<Pass>({}, {x}); }

Tensor values(const Shape& shape, std::uint64_t tag, DType dtype = DType::f32) {
  const RandomStream stream{.seed = 3, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> x(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(x, shape).to(dtype);
}

/// Records the gradient that `down` computed for its input, and the gradient that `up` received.
struct Between final : TapeObserver {
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& observed) override {
    if (call.module_path == "up") got = gy[0].clone();
    if (call.module_path != "down" || std::string_view(call.info.name) != "linear") return;
    given = gx[0].clone();
    seen = observed;
  }
  Tensor given, got;
  Observation seen;
};

struct Mlp {
  explicit Mlp(DType dtype, Activation kind = Activation::kGeluTanh)
      : x(values({kRows, kWidth}, 1, dtype), true),
        up_weight(values({kHidden, kWidth}, 2, parameters_of(dtype)), true),
        up_bias(values({kHidden}, 3, parameters_of(dtype)), true),
        down_weight(values({kWidth, kHidden}, 4, parameters_of(dtype)), true),
        activation(kind) {
    x.state()->activation = true;
  }
  static DType parameters_of(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

  Variable up() const { return up(x); }
  Variable up(const Variable& from) const {
    const ModulePathScope module("up");
    return linear(from, up_weight, up_bias, {.activation = activation});
  }
  Variable down(const Variable& h) const {
    const ModulePathScope module("down");
    return linear(h, down_weight);
  }
  std::vector<Tensor> gradients() const { return {x.grad(), up_weight.grad(), up_bias.grad(), down_weight.grad()}; }

  Variable x, up_weight, up_bias, down_weight;
  Activation activation;
};

class DerivativeInProduct : public ::testing::Test {};

/// Runs forward and backward under a policy for `dtype`. Returns the gradients of x and the parameters.
std::vector<Tensor> gradients(const Mlp& mlp, DType dtype, const std::function<Variable(const Mlp&)>& run,
                              Between* between = nullptr) {
  const PolicyScope policy(is_half(dtype) ? PrecisionPolicy{.low = dtype} : PrecisionPolicy{});
  std::optional<ObserverScope> scope;
  if (between != nullptr) scope.emplace(*between);
  const Variable y = run(mlp);
  backward(y, values({kRows, kWidth}, 5).to(y.dtype()));
  return mlp.gradients();
}
Variable together(const Mlp& mlp) { return mlp.down(mlp.up()); }
Variable apart(const Mlp& mlp) { return mlp.down(pass(mlp.up())); }

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(std::memcmp(got[i].raw(), want[i].raw(), want[i].bytes()), 0) << i;
}

TEST_F(DerivativeInProduct, HasTheBitsOfASeparatePassInF32) {
  for (const Activation activation : kActivations)
    for (const DType dtype : {DType::f32, DType::f64})
      expect_same(gradients(Mlp(dtype, activation), dtype, together), gradients(Mlp(dtype, activation), dtype, apart));
}

/// After the forward of `down`, the tape no longer holds the result of `up` if backward can recompute it.
TEST_F(DerivativeInProduct, TheInputOfTheSecondLayerIsSavedOnlyIfItCannotBeRecomputed) {
  const auto keeps = [](DType dtype, Activation activation, const std::function<Variable(const Variable&)>& between) {
    const Mlp mlp(dtype, activation);
    const PolicyScope policy(is_half(dtype) ? PrecisionPolicy{.low = dtype} : PrecisionPolicy{});
    Variable h = mlp.up();
    const Tensor held = h.value();
    const Variable y = mlp.down(between(h));
    h = Variable();
    return !held.sole_owner();
  };
  const auto as_it_is = [](const Variable& h) { return h; };
  for (const Activation smooth : {Activation::kGelu, Activation::kGeluTanh}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      EXPECT_FALSE(keeps(dtype, smooth, as_it_is)) << name_of(dtype);
      EXPECT_TRUE(keeps(dtype, smooth, pass)) << "another op made it: " << name_of(dtype);
    }
  }
  EXPECT_TRUE(keeps(DType::f32, Activation::kRelu, as_it_is)) << "its derivative is taken of y itself";
}

/// The weight gradient of `down` depends on the recomputed input, and not on the place where the derivative is applied.
/// Equal bits show that the recomputed input equals the one that forward read.
TEST_F(DerivativeInProduct, TheRecomputedInputHasTheBitsOfTheOriginal) {
  for (const Activation activation : kActivations)
    for (const DType dtype : {DType::f16, DType::bf16})
      for (const bool fp8 : {false, true}) {
        const auto gradient = [&](const std::function<Variable(const Variable&)>& between) {
          const Mlp mlp(dtype, activation);
          gradients(mlp, dtype, [&](const Mlp& m) {
            ops::Linear::Params params;
            if (fp8) params.fp8.emplace();
            return apply_one<ops::Linear>(params, {between(m.up()), m.down_weight, Variable()});
          });
          return mlp.down_weight.grad();
        };
        expect_same({gradient([](const Variable& h) { return h; })}, {gradient(pass)});
      }
}

TEST_F(DerivativeInProduct, In16BitsAFusedGeluEqualsASeparateGelu) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool trained : {true, false}) {
      const PolicyScope policy(PrecisionPolicy{.low = dtype});
      const Mlp exact(dtype, Activation::kGelu), tanh(dtype, Activation::kGeluTanh);
      const auto value = [&](const std::function<Variable()>& run) {
        std::optional<NoGradGuard> evaluation;
        if (!trained) evaluation.emplace();
        return run().value();
      };
      const Tensor z = linear(exact.x, exact.up_weight, exact.up_bias).value();
      expect_same({value([&] { return exact.up(); }), value([&] { return tanh.up(); })},
                  {gelu(z).value(), gelu_tanh(z).value()});
    }
}

/// The product is multiplied by the derivative before rounding, so the error is half an ulp plus the error of the sum.
TEST_F(DerivativeInProduct, IsRoundedOnceIn16Bits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Mlp mlp(dtype);
    Between between;
    gradients(mlp, dtype, together, &between);
    const double half_ulp = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    const auto rounded = [dtype](const Tensor& t) { return t.to(dtype).to_vector<double>(); };
    const std::vector<double> w = rounded(mlp.down_weight.value()), gy = rounded(values({kRows, kWidth}, 5));
    const PolicyScope policy(PrecisionPolicy{.low = dtype});
    const std::vector<double> z = linear(mlp.x, mlp.up_weight, mlp.up_bias).value().to_vector<double>();
    const std::vector<double> gz = between.given.to_vector<double>();
    ASSERT_EQ(between.given.dtype(), dtype);
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t h = 0; h < kHidden; ++h) {
        double sum = 0, magnitude = 0;
        for (std::size_t i = 0; i < kWidth; ++i) {
          sum += gy[r * kWidth + i] * w[i * kHidden + h];
          magnitude += std::abs(gy[r * kWidth + i] * w[i * kHidden + h]);
        }
        const double exact = sum * math::gelu_tanh_derivative(z[r * kHidden + h]);
        ASSERT_LE(std::abs(gz[r * kHidden + h] - exact), half_ulp * std::abs(exact) + magnitude * 0x1p-20 + 0x1p-25)
            << name_of(dtype) << " " << r << " " << h;
      }
    EXPECT_EQ(between.got.to_vector<double>(), gz) << "handed on as it is";
  }
}

/// If h has a second reader (an op or another layer), or `up` is in a recomputed segment, `down` returns the gradient
/// of its input, and `up` multiplies by the derivative itself.
TEST_F(DerivativeInProduct, IsNotFusedIfAnotherOpIsInBetween) {
  const auto given = [](const std::function<Variable(const Mlp&)>& run) {
    Between between;
    gradients(Mlp(DType::f32), DType::f32, run, &between);
    return between.given.to_vector<float>();
  };
  const std::vector<float> plain = given(apart);
  EXPECT_NE(given(together), plain);
  EXPECT_EQ(given([](const Mlp& m) {
              const Variable h = m.up();
              return m.down(h) + testing::scale(slice(h, 1, 0, kWidth), 0);
            }),
            plain)
      << "another reader";
  EXPECT_EQ(given([](const Mlp& m) {
              const Variable h = m.up();
              const Variable y = m.down(h);
              return y + linear(h, Variable(Tensor::zeros({kWidth, kHidden})));
            }),
            plain)
      << "another layer";
  EXPECT_EQ(given([](const Mlp& m) { return m.down(recompute([&](const Variable& x) { return m.up(x); }, m.x)); }),
            plain)
      << "a recomputed layer";
}

/// `down` computes in f32, so it reads a cast of the result of `up`.
TEST_F(DerivativeInProduct, IsNotFusedIfACastIsInBetween) {
  Between between;
  const Mlp mlp(DType::bf16);
  {
    const PolicyScope policy(PrecisionPolicy{.low = DType::bf16}.with("down/linear", DType::f32));
    const ObserverScope scope(between);
    backward(together(mlp), values({kRows, kWidth}, 5));
  }
  EXPECT_EQ(between.given.dtype(), DType::f32);
  EXPECT_EQ(between.got.to_vector<float>(), between.given.to(DType::bf16).to_vector<float>());
}

TEST_F(DerivativeInProduct, ARecomputedSegmentHasTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16})
    expect_same(
        gradients(Mlp(dtype), dtype,
                  [](const Mlp& m) { return recompute([&m](const Variable& x) { return m.down(m.up(x)); }, m.x); }),
        gradients(Mlp(dtype), dtype, together));
}

/// Each backward pass decides anew which op multiplies by the derivative.
TEST_F(DerivativeInProduct, EachPassOverARetainedGraphDecidesAnew) {
  const Mlp mlp(DType::f32), other(DType::f32);
  const Tensor g = values({kRows, kWidth}, 5);
  const Variable h = mlp.up(), y = mlp.down(h), both = y + linear(h, Variable(Tensor::zeros({kWidth, kHidden})));
  for (const Variable& from : {both, y, both, y}) backward(from, g, {.retain_graph = true});
  for (int i = 0; i < 4; ++i) backward(apart(other), g);
  expect_same(mlp.gradients(), other.gradients());
}

/// An infinite gradient stays non-finite when it is multiplied by the derivative, so that `down` is found as the first
/// bad op: infinity times a derivative of 0 is NaN.
TEST_F(DerivativeInProduct, AnInfinityIsReportedAtTheOpThatComputedIt) {
  for (const double z : {-50.0, 3.0}) {
    Mlp mlp(DType::f32);
    mlp.up_bias = Variable(Tensor::full({kHidden}, z), true);
    Tensor w = values({kWidth, kHidden}, 4);
    w.mutable_data<float>()[7] = 3e37f;
    mlp.down_weight = Variable(w, true);
    amp::FirstBadSearch search(kRows);
    Between between;
    const ObserverScope outer(search), inner(between);
    backward(together(mlp), Tensor::full({kRows, kWidth}, 100));
    const std::optional<amp::FirstBad> found = search.found();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->module, "down");
    EXPECT_EQ(found->direction, "backward");
    EXPECT_EQ(found->index, (std::vector<std::int64_t>{0, 7}));
    EXPECT_EQ(found->value, z < 0 ? "nan" : "inf");
    EXPECT_GE(between.seen.wide, 0x7f800000u);
  }
}

}  // namespace
}  // namespace binade
