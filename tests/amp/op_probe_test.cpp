#include "binade/amp/incident/op_probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions.h"
#include "binade/core/step_context.h"

// Tests op_probe.h, which computes a recorded call of an op again in f64.
namespace binade::amp {
namespace {

/// Records the last call of an op.
struct LastCall final : TapeObserver {
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs, const Observation&) override {
    recorded = record_forward(call, read, outputs.front().dtype());
  }
  RecordedCall recorded;
};

template <class F>
ResultInDouble forward(F&& f) {
  LastCall last;
  {
    const ObserverScope scope(last);
    f();
  }
  return result_in_double(last.recorded);
}

Variable values(std::vector<double> x, DType dtype = DType::f32, bool requires_grad = false) {
  const Shape shape{static_cast<std::int64_t>(x.size())};
  return Variable(Tensor::from(x, shape).to(dtype), requires_grad);
}

TEST(OpProbe, DistinguishesOverflowFromSingularity) {
  const PolicyScope half(PrecisionPolicy{}.with("*", DType::f16));
  EXPECT_EQ(forward([] { return values({300}, DType::f16) * values({300}, DType::f16); }),
            ResultInDouble::kBeyondRange);
  EXPECT_EQ(forward([] { return values({300}, DType::f16) / values({0}, DType::f16); }), ResultInDouble::kSingular);
  EXPECT_EQ(forward([] { return values({3}, DType::f16) * values({3}, DType::f16); }), ResultInDouble::kInRange);
}

TEST(OpProbe, DistinguishesDomainErrorAndOverflowOfF64FromSingularity) {
  EXPECT_EQ(forward([] { return sqrt(values({-2})); }), ResultInDouble::kNotFinite);
  EXPECT_EQ(forward([] { return exp(values({1000})); }), ResultInDouble::kBeyondRange);
  EXPECT_EQ(forward([] { return log(values({0})); }), ResultInDouble::kSingular);
}

TEST(OpProbe, ComputesDerivatives) {
  const auto backward_at = [](double x, double gy) {
    CallRecorder recorder(0, 0);
    {
      const ObserverScope scope(recorder);
      step_context().micro_batch = 0;
      step_context().next = {};
      const Variable in = values({x}, DType::f32, true);
      backward(sqrt(in), Tensor::from(std::vector<double>{gy}, Shape{1}).to(DType::f32));
    }
    return result_in_double(recorder.recorded());
  };
  EXPECT_EQ(backward_at(4, 1), ResultInDouble::kInRange);
  EXPECT_EQ(backward_at(0, 1), ResultInDouble::kSingular);
  EXPECT_EQ(backward_at(1e-20, 3e38), ResultInDouble::kBeyondRange);
}

/// An op that refuses f64.
struct OnlyF32 {
  struct Params {};
  static constexpr OpInfo info{.name = "only_f32"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) {
    check<DTypeError>(in[0].dtype() == DType::f32, "only_f32: wanted f32");
    return {in[0].clone()};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};

/// y = x / s + s / s, where s is the sum of x, rounded to the dtype of x after each addition. With `is_wrong`: y = x,
/// except that the first element is NaN whatever x is.
struct Share {
  struct Params {
    bool is_wrong = false;
  };
  static constexpr OpInfo info{.name = "share"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    std::vector<double> x = in[0].to_vector<double>();
    double sum = 0;
    for (const double v : x) sum = Tensor::scalar(sum + v, in[0].dtype()).item();
    for (double& v : x) v = p.is_wrong ? v : (v / sum + sum / sum);
    if (p.is_wrong) x[0] = std::nan("");
    return {Tensor::from(x, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};

TEST(OpProbe, FindsAnIntermediateValueBeyondTheDtype) {
  const PolicyScope half(PrecisionPolicy{}.with("*", DType::f16));
  const auto shares = [](std::vector<double> x) {
    return forward([&] { return apply_one<Share>({}, {values(x, DType::f16)}); });
  };
  EXPECT_EQ(shares({40000, 40000}), ResultInDouble::kBeyondRange);
  EXPECT_EQ(shares({30000, 30000}), ResultInDouble::kInRange);
  EXPECT_EQ(shares({0, 0}), ResultInDouble::kSingular);
}

TEST(OpProbe, BoundsPartialSums) {
  LastCall last;
  const auto call_of = [&](std::vector<double> x, std::vector<double> w) {
    const ObserverScope scope(last);
    linear(Variable(values(std::move(x)).value().reshape({1, 2})),
           Variable(values(std::move(w)).value().reshape({1, 2})));
    return last.recorded;
  };
  const RecordedCall cancelling = call_of({1e20, 1e20}, {1e20, -1e20});
  EXPECT_EQ(result_in_double(cancelling), ResultInDouble::kInRange);
  EXPECT_FALSE(sums_are_in_range(cancelling)) << "in f32, 1e40 - 1e40 is inf - inf";
  EXPECT_TRUE(sums_are_in_range(call_of({1e10, 1e10}, {1e10, -1e10})));
}

TEST(OpProbe, FindsAnOpThatIsNeverFinite) {
  EXPECT_EQ(forward([] {
              return apply_one<Share>({.is_wrong = true}, {values({1, 2})});
            }),
            ResultInDouble::kNeverFinite);
}

TEST(OpProbe, FindsTheSingularityOfAParameter) {
  EXPECT_EQ(forward([] { return values({1, 0, -2}) / 0.0; }), ResultInDouble::kSingular);
  EXPECT_EQ(forward([] { return layer_norm(values({1, 1}), {}, {}, 0); }), ResultInDouble::kSingular);
}

TEST(OpProbe, ReturnsUnknownForAnOpThatRefusesF64) {
  EXPECT_EQ(forward([] { return apply_one<OnlyF32>({}, {values({1})}); }), ResultInDouble::kUnknown);
  EXPECT_EQ(result_in_double({}), ResultInDouble::kUnknown);
}

}  // namespace
}  // namespace binade::amp
