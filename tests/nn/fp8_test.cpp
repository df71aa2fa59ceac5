#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/recompute.h"
#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/runtime.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"

namespace binade::nn {
namespace {

// The reference rounds in double, by the definition of the formats. The operands are integers of at most 8 bits times a
// power of two, and stay so when rounded. So products and sums are exact in float, and results are compared exactly.

constexpr std::int64_t kRows = 5, kIn = 24, kOut = 9;

struct Format {
  int mantissa, least_exponent;
  double largest;
};
constexpr Format kE4m3{3, -6, 448}, kE5m2{2, -14, 57344};

double rounded(double x, int k, const Format& f) {
  const double scaled = std::ldexp(std::abs(x), k);
  if (scaled == 0) return 0;
  const double step = std::ldexp(1, std::max(std::ilogb(scaled), f.least_exponent) - f.mantissa);
  const double value = std::min(std::nearbyint(scaled / step) * step, f.largest);
  return std::copysign(std::ldexp(value, -k), x);
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

int exponent_for(double amax, const Format& f) {
  if (amax == 0) return 0;
  int k = -126;
  while (k < 110 && std::ldexp(amax, k + 1) <= f.largest) ++k;
  return k;
}

double to_bf16(double x) { return bfloat16::from_float(static_cast<float>(x)).to_float(); }

/// The maxima of one operand in the last steps, newest first.
struct History {
  Format format;
  std::vector<double> before{};

  std::vector<double> round(const std::vector<double>& values) const {
    const double past = largest_of(before);
    const int k = exponent_for(past > 0 ? past : largest_of(values), format);
    std::vector<double> result;
    for (const double x : values) result.push_back(rounded(x, k, format));
    return result;
  }
  void end_step(const std::vector<double>& values) {
    before.insert(before.begin(), largest_of(values));
    before.resize(std::min<std::size_t>(before.size(), 16));
  }
};

std::vector<double> whole_numbers(std::int64_t count, std::uint32_t tag, double unit) {
  const RandomStream stream{7, RngPurpose::kData, 0, 0, tag};
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::round(510 * (stream.uniform(static_cast<std::uint64_t>(i)) - 0.5)) * unit);
  return values;
}

Tensor tensor_of(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32) {
  return Tensor::from(values, shape).to(dtype);
}

class Fp8 : public testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
  PolicyScope fp8_{amp::Policy::fp8()};

  static Tensor input(std::uint32_t tag, double unit = 0.125) {
    return tensor_of(whole_numbers(kRows * kIn, tag, unit), {kRows, kIn});
  }
  static Linear layer(bool history = true) {
    Linear made({.in = kIn, .out = kOut});
    made.weight.mutable_value().copy_from(tensor_of(whole_numbers(kOut * kIn, 99, 0x1p-12), {kOut, kIn}));
    made.bias.mutable_value().fill(0);
    use_fp8(made, history);
    return made;
  }
  static std::vector<float> values(const Variable& y) { return y.value().to_vector<float>(); }
};

TEST_F(Fp8, ALinearLayerEqualsTheReferenceWithRoundedOperandsInEveryStep) {
  Linear made = layer();
  std::vector<double> w = whole_numbers(kOut * kIn, 99, 0x1p-12);
  History of_x{kE4m3}, of_w{kE4m3}, of_g{kE5m2};
  // Magnitudes grow and shrink: some steps saturate, others use few of the codes.
  const double x_units[] = {0.125, 0.25, 8, 0.5, 0.125, 0.125},
               g_units[] = {0x1p-20, 0x1p-12, 0x1p-15, 0x1p-22, 1, 0x1p-9};
  for (std::uint32_t step = 0; step < 6; ++step) {
    const std::vector<double> x = whole_numbers(kRows * kIn, step, x_units[step]);
    const std::vector<double> g = whole_numbers(kRows * kOut, 50 + step, g_units[step]);
    const Variable in(tensor_of(x, {kRows, kIn}, DType::bf16), true);
    const Variable y = made(in);
    backward(y, tensor_of(g, {kRows, kOut}, DType::bf16));
    const std::vector<double> xq = of_x.round(x), wq = of_w.round(w), gq = of_g.round(g);
    const std::vector<float> got_y = values(y), got_gx = in.grad().to_vector<float>(),
                             got_gw = made.weight.grad().to_vector<float>(),
                             got_gb = made.bias.grad().to_vector<float>();
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t o = 0; o < kOut; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < kIn; ++i)
          sum += xq[static_cast<std::size_t>(r * kIn + i)] * wq[static_cast<std::size_t>(o * kIn + i)];
        EXPECT_EQ(got_y[static_cast<std::size_t>(r * kOut + o)], to_bf16(sum)) << "step " << step;
      }
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t i = 0; i < kIn; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < kOut; ++o)
          sum += gq[static_cast<std::size_t>(r * kOut + o)] * wq[static_cast<std::size_t>(o * kIn + i)];
        EXPECT_EQ(got_gx[static_cast<std::size_t>(r * kIn + i)], sum) << "step " << step;
      }
    for (std::int64_t o = 0; o < kOut; ++o) {
      double of_bias = 0;
      for (std::int64_t r = 0; r < kRows; ++r) of_bias += g[static_cast<std::size_t>(r * kOut + o)];
      EXPECT_EQ(got_gb[static_cast<std::size_t>(o)], of_bias) << "of the gradient as it came, step " << step;
      for (std::int64_t i = 0; i < kIn; ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < kRows; ++r)
          sum += gq[static_cast<std::size_t>(r * kOut + o)] * xq[static_cast<std::size_t>(r * kIn + i)];
        EXPECT_EQ(got_gw[static_cast<std::size_t>(o * kIn + i)], sum) << "step " << step;
      }
    }
    of_x.end_step(x);
    of_w.end_step(w);
    of_g.end_step(g);
    made.weight.zero_grad();
    made.bias.zero_grad();
  }
  const std::vector<float> amaxes = made.fp8_amax.committed().to_vector<float>();
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(amaxes[i], of_x.before[i]);
    EXPECT_EQ(amaxes[17 + i], of_w.before[i]);
    EXPECT_EQ(amaxes[34 + i], of_g.before[i]);
  }
}

TEST_F(Fp8, TheScaleIsOfTheLastSixteenSteps) {
  Linear made = layer();
  made(input(0, 64));
  for (std::uint32_t step = 1; step <= 16; ++step) made(input(1));
  const std::vector<float> coarse = values(made(input(2)));  // step 0 has left the history
  Linear fresh = layer();
  for (std::uint32_t step = 1; step <= 16; ++step) fresh(input(1));
  EXPECT_EQ(coarse, values(fresh(input(2))));
}

TEST_F(Fp8, AJumpSaturatesForOneStepAndTheNextRecovers) {
  Linear made = layer();
  made(input(1));
  const Tensor large = input(1, 128);  // 1024 times as much
  const std::vector<float> saturated = values(made(large)), recovered = values(made(large));
  const Linear alone = layer(false);
  std::vector<float> wanted = values(linear(large, alone.weight, {}, {.fp8 = ops::Fp8Scaling{}}));
  EXPECT_EQ(recovered, wanted) << "as scaled by its own magnitude";
  for (const float y : saturated) EXPECT_TRUE(std::isfinite(y));
  EXPECT_LT(std::abs(*std::ranges::max_element(saturated)), 0.1f * *std::ranges::max_element(wanted));
}

TEST_F(Fp8, AStepTransactionIsOneStepForAllItsMicroBatches) {
  Linear made = layer();
  made(input(1));
  const std::vector<float> before = made.fp8_amax.committed().to_vector<float>();
  std::vector<float> first;
  for (const bool commits : {false, true}) {
    const TransactionScope transaction;
    const std::vector<float> y = values(made(input(2, 1)));
    if (commits) {
      EXPECT_EQ(y, first) << "the same step again has the same bits";
    }
    first = y;
    EXPECT_EQ(values(made(input(2, 1))), y) << "a further micro-batch has the step's scale";
    made(input(3, 4));
    EXPECT_EQ(made.fp8_amax.committed().to_vector<float>(), before);
    commits ? made.fp8_amax.commit() : made.fp8_amax.rollback();
  }
  const std::vector<float> after = made.fp8_amax.committed().to_vector<float>();
  EXPECT_EQ(after[1], before[0]);
  EXPECT_EQ(after[0], largest_of(whole_numbers(kRows * kIn, 3, 4))) << "the largest of all micro-batches";
  EXPECT_EQ(after[2], 0);
}

TEST_F(Fp8, RecomputationHasTheSameBitsAndIsNoStep) {
  for (const bool transaction : {false, true}) {
    std::vector<float> gradients[2], amaxes[2];
    for (const bool again : {false, true}) {
      std::optional<TransactionScope> scope;
      Linear up = layer(), down({.in = kOut, .out = 4});
      use_fp8(down);
      down.weight.mutable_value().copy_from(tensor_of(whole_numbers(4 * kOut, 98, 0x1p-10), {4, kOut}));
      const auto segment = [&](const Variable& x) { return down(up(x)); };
      for (std::uint32_t step = 0; step < 3; ++step) {
        if (transaction) scope.emplace();
        const Variable x(input(step, 1 << (4 * step)).to(DType::bf16), true);
        const Variable y = again ? recompute(segment, x) : segment(x);
        backward(y, tensor_of(whole_numbers(kRows * 4, 60 + step, 0.5), {kRows, 4}, DType::bf16));
        up.fp8_amax.commit();
        down.fp8_amax.commit();
      }
      gradients[again] = up.weight.grad().to_vector<float>();
      amaxes[again] = up.fp8_amax.committed().to_vector<float>();
    }
    EXPECT_EQ(gradients[0], gradients[1]);
    EXPECT_EQ(amaxes[0], amaxes[1]);
    EXPECT_GT(amaxes[1][2], 0) << "three steps";
    EXPECT_EQ(amaxes[1][3], 0) << "and no more";
  }
}

TEST_F(Fp8, EvaluationWritesNothingAndUsesTheLatestScale) {
  Linear made = layer();
  made(input(1, 1));
  const std::vector<float> before = made.fp8_amax.committed().to_vector<float>();
  made.eval();
  const std::vector<float> y = values(made(input(1, 1)));
  EXPECT_EQ(values(made(input(1, 1))), y);
  EXPECT_EQ(made.fp8_amax.committed().to_vector<float>(), before);
  Linear alone = layer(false);
  EXPECT_EQ(values(alone(input(1, 1))), y) << "the step before had the same magnitudes";
}

TEST_F(Fp8, AnOverrideKeepsALayerInBf16OrInF32) {
  struct Two : Module {
    Linear first{{.in = kIn, .out = kOut}}, second{{.in = kIn, .out = kOut}};
    void visit(Visitor& v) override {
      v("first", first);
      v("second", second);
    }
  } both;
  use_fp8(both);
  both.second.weight.mutable_value().copy_from(both.first.weight.value());
  both.second.bias.mutable_value().copy_from(both.first.bias.value());
  assign_paths(both);
  const Variable x(input(1));
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const PolicyScope scope(amp::Policy::fp8().with("second", dtype));
    const Variable a = both.first(x), b = both.second(x);
    EXPECT_EQ(a.dtype(), DType::bf16);
    EXPECT_EQ(b.dtype(), dtype);
    EXPECT_NE(values(a), values(b));
    const PolicyScope plain(PrecisionPolicy{.name = "plain", .low = dtype});
    EXPECT_EQ(values(linear(x, both.second.weight, both.second.bias)), values(b));
  }
  EXPECT_EQ(both.second.fp8_amax.committed().at(0), 0) << "it took no part";
}

TEST_F(Fp8, NonFiniteValuesPropagateAndAreNotInTheHistory) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Linear made = layer();
    Tensor x = input(1);
    x.mutable_data<float>()[kIn + 3] = bad;
    const std::vector<float> y = values(made(x));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i / kOut != 1) << i;
    for (const float a : made.fp8_amax.value().to_vector<float>()) EXPECT_TRUE(std::isfinite(a));
    EXPECT_GT(made.fp8_amax.value().at(0), 0);
    Tensor gy = tensor_of(whole_numbers(kRows * kOut, 50, 1), {kRows, kOut}, DType::bf16);
    gy.mutable_data<bfloat16>()[4] = bfloat16::from_float(bad);
    const Variable in(input(1).to(DType::bf16), true);
    backward(made(in), gy);
    EXPECT_FALSE(std::isfinite(in.grad().at(0)));
    EXPECT_TRUE(std::isfinite(in.grad().at(kIn)));
  }
}

TEST_F(Fp8, TheHistoryIsPartOfTheStateWhileFp8IsInUse) {
  Sequential model;
  model.append(Linear({.in = 4, .out = 4}));
  EXPECT_FALSE(state_dict(model).contains("0.fp8_amax"));
  use_fp8(model);
  EXPECT_TRUE(state_dict(model).contains("0.fp8_amax"));
  use_fp8(model, false);
  EXPECT_FALSE(state_dict(model).contains("0.fp8_amax"));
}

TEST_F(Fp8, EmptyTensorsAreAcceptedAndOtherDtypesRefused) {
  EXPECT_EQ(ops::round_to_fp8(Tensor::zeros({0, 4}, DType::bf16), ops::Fp8Operand::kX, {}).shape(), Shape({0, 4}));
  EXPECT_EQ(ops::round_to_fp8(Tensor::zeros({3}, DType::bf16), ops::Fp8Operand::kX, {}).to_vector<float>(),
            std::vector<float>(3, 0));
  EXPECT_THROW(ops::round_to_fp8(Tensor::zeros({3}), ops::Fp8Operand::kX, {}), DTypeError);
  Linear made = layer();
  EXPECT_EQ(made(Tensor::zeros({0, kIn})).shape(), Shape({0, kOut}));
}

}  // namespace
}  // namespace binade::nn
