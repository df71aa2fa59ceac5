#include "binade/autograd/functions/norm.h"

#include <gtest/gtest.h>

#include <limits>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/runtime.h"
#include "tests/core/op_check.h"

namespace binade {
namespace {

using test::noise;

class Norms : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 3}};
};

/// Returns the norm of each row, by plain loops in double; `rms` selects the RMS norm, which does not subtract the
/// mean.
std::vector<double> reference_rows(const Tensor& x, const Tensor& w, const Tensor& b, double eps, bool rms) {
  const std::int64_t rows = x.shape().rows(), cols = x.shape().cols();
  std::vector<double> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, var = 0;
    for (std::int64_t c = 0; c < cols; ++c) mean += rms ? 0 : x.at(r * cols + c) / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c) var += std::pow(x.at(r * cols + c) - mean, 2) / static_cast<double>(cols);
    for (std::int64_t c = 0; c < cols; ++c)
      y.push_back((x.at(r * cols + c) - mean) / std::sqrt(var + eps) * w.at(c) + (b.defined() ? b.at(c) : 0));
  }
  return y;
}

TEST_F(Norms, LayerNormEqualsTheFormulaInEveryDTypeAndLevel) {
  const std::string_view before = cpu::level().isa;
  for (const std::string_view level : cpu::isa_levels()) {
    cpu::select_isa(level);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const std::int64_t cols : {1, 3, 16, 31, 64, 129}) {
        const Tensor x = noise({5, cols}, 1, dtype, 2), w = noise({cols}, 2, DType::f32),
                     b = noise({cols}, 3, DType::f32);
        test::check_close(layer_norm(x, w, b).value(), reference_rows(x, w, b, 1e-5, false), 8);
        test::check_close(rms_norm(x, w, 1e-5).value(), reference_rows(x, w, {}, 1e-5, true), 8);
      }
  }
  cpu::select_isa(before);
}

/// The squares of 1e30 and 1e-30 are outside of the range of f32. Rows multiplied by such factors must be normalized as
/// without the factor.
TEST_F(Norms, RowsWhoseSquaresOverflowOrUnderflowAreNormalized) {
  const std::string_view before = cpu::level().isa;
  const Tensor w = noise({37}, 2, DType::f32), b = noise({37}, 3, DType::f32), gy = noise({4, 37}, 4, DType::f32);
  for (const std::string_view level : cpu::isa_levels()) {
    cpu::select_isa(level);
    for (const auto& [dtype, unit, eps] : {std::tuple(DType::f32, 0x1p100, 1e-5),
                                           {DType::bf16, 0x1p100, 1e-5},
                                           {DType::f32, 0x1p126, 1e-5},
                                           {DType::f32, 0x1p-100, 0.0},
                                           {DType::f64, 0x1p1000, 1e-5},
                                           {DType::f64, 0x1p-900, 0.0}}) {
      const auto in = [&](const Tensor& t) { return t.to(accumulate_dtype(dtype)); };
      Tensor x = noise({4, 37}, 1, dtype, 1).to(DType::f64), far = x.clone();
      for (double& v : std::span(far.mutable_data<double>(), 3 * 37)) v *= unit;  // the last row is not scaled
      for (const bool rms : {false, true}) {
        const auto run = [&](const Tensor& of, double given) {
          const Variable v(of.to(dtype), true);
          const Variable y = rms ? rms_norm(v, in(w), given) : layer_norm(v, in(w), in(b), given);
          backward(y, gy.to(dtype));
          return std::pair(y.value(), v.grad());
        };
        const auto [y, gx] = run(far, eps);
        const auto [plain, plain_gx] = run(x, 0);  // eps is negligible compared with 1e30
        const auto [ordinary, ordinary_gx] = run(x, eps);
        for (std::int64_t i = 0; i < y.numel(); ++i) {
          const bool scaled = i < 3 * 37;
          // Scaled rows take another code path, so a few roundings differ (one in bf16).
          const double near = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f32 ? 2e-6 : 1e-14;
          EXPECT_NEAR(y.at(i), (scaled ? plain : ordinary).at(i), scaled ? 4 * near : 0) << level << " " << i;
          const double gradient = (scaled ? plain_gx : ordinary_gx).at(i);
          if (scaled && unit > 0x1p120) continue;  // gradients are subnormal
          EXPECT_NEAR(gx.at(i) * (scaled ? unit : 1), gradient, scaled ? 64 * near : 0) << level << " " << i;
        }
      }
    }
    const Tensor same = Tensor::full({1, 37}, 1e30), low = Tensor::full({1, 37}, -3e38);
    EXPECT_EQ(layer_norm(same, w, b).value().to_vector<float>(), b.to_vector<float>()) << "a constant row";
    EXPECT_EQ(layer_norm(low, w, b).value().to_vector<float>(), b.to_vector<float>());
    Tensor ends = Tensor::full({1, 2}, 3e38);
    ends.mutable_data<float>()[1] = -3e38f;
    EXPECT_EQ(layer_norm(ends, {}, {}).value().to_vector<float>(), (std::vector<float>{1, -1}));
    ends.mutable_data<float>()[1] = INFINITY;
    EXPECT_TRUE(std::isnan(layer_norm(ends, {}, {}).value().at(0)));
    EXPECT_TRUE(std::isnan(rms_norm(ends, {}).value().at(1)));
  }
  cpu::select_isa(before);
}

TEST_F(Norms, AChannelOrGroupWhoseVarianceOverflowsIsNan) {
  Tensor x = noise({2, 3, 2, 4}, 1, DType::f32);
  for (std::int64_t i = 0; i < x.numel(); i += 4) x.mutable_data<float>()[i] *= 1e30f;
  const Tensor y = batch_norm(x, {}, {}).y.value(), z = group_norm(x, 2).value();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    EXPECT_EQ(std::isnan(y.at(i)), i % 4 == 0) << i;
    EXPECT_EQ(std::isnan(z.at(i)), i % 4 < 2) << i;
  }
}

TEST_F(Norms, RowNormGradientsEqualFiniteDifferences) {
  for (const std::int64_t cols : {1, 2, 7, 17}) {
    const Tensor x = noise({2, 3, cols}, 1), r = noise({2, 3, cols}, 2), w = noise({cols}, 3), b = noise({cols}, 4);
    test::check_gradients([](const auto& v) { return std::vector{layer_norm(v[0], v[1], v[2])}; }, {x, w, b});
    test::check_gradients([](const auto& v) { return std::vector{layer_norm(v[0])}; }, {x});
    test::check_gradients([](const auto& v) { return std::vector{rms_norm(v[0], v[1])}; }, {x, w});
    const auto both = [](const AddNormResult& n) { return std::vector{n.h, n.y}; };
    test::check_gradients([&](const auto& v) { return both(add_layer_norm(v[0], v[1], v[2], v[3])); }, {x, r, w, b});
    test::check_gradients([&](const auto& v) { return both(add_rms_norm(v[0], v[1], v[2])); }, {x, r, w});
    test::check_gradients([](const auto& v) { return std::vector{add_layer_norm(v[0], v[1], v[2], v[3]).y}; },
                          {x, r, w, b});
  }
}

TEST_F(Norms, GroupAndBatchNormGradientsEqualFiniteDifferences) {
  for (const std::int64_t cols : {2, 4, 18}) {
    const Tensor x = noise({2, 3, 2, cols}, 1), r = noise({2, 3, 2, cols}, 2), w = noise({cols}, 3),
                 b = noise({cols}, 4);
    const Tensor off_the_kink = noise({2, 3, 2, cols}, 8);  // norm + residual stays 0.007 away from the ReLU's kink
    test::check_gradients([](const auto& v) { return std::vector{group_norm(v[0], 2, v[1], v[2])}; }, {x, w, b});
    test::check_gradients([](const auto& v) { return std::vector{group_norm(v[0], 2, v[1], v[2], {.relu = true})}; },
                          {x, w, b});
    test::check_gradients(
        [](const auto& v) { return std::vector{group_norm(v[0], 2, v[1], v[2], {.relu = true, .residual = v[3]})}; },
        {x, w, b, off_the_kink});
    test::check_gradients(
        [](const auto& v) { return std::vector{group_norm(v[0], 2, v[1], v[2], {.residual = v[3]})}; }, {x, w, b, r});
    test::check_gradients([](const auto& v) { return std::vector{batch_norm(v[0], v[1], v[2]).y}; }, {x, w, b});
    test::check_gradients([](const auto& v) { return std::vector{batch_norm(v[0], v[1], v[2], {.relu = true}).y}; },
                          {x, w, b});
    test::check_gradients(
        [](const auto& v) { return std::vector{batch_norm(v[0], v[1], v[2], {.relu = true, .residual = v[3]}).y}; },
        {x, w, b, r});
    test::check_gradients([](const auto& v) { return std::vector{batch_norm(v[0], v[1], v[2], {.residual = v[3]}).y}; },
                          {x, w, b, r});
    const Tensor mean = noise({cols}, 5), var = Tensor::full({cols}, 0.7, DType::f64);
    test::check_gradients(
        [&](const auto& v) { return std::vector{batch_norm_with(v[0], mean, var, v[1], v[2], {.relu = true})}; },
        {x, w, b});
  }
}

TEST_F(Norms, BatchNormStatisticsAreAccurateForALargeMean) {
  // 1000 + noise: a one-pass variance in f32 would lose every digit of it.
  Tensor x = noise({4, 16, 16, 5}, 7, DType::f64);
  std::vector<double> shifted = x.to_vector<double>();
  double mean = 0, var = 0;
  for (double& v : shifted) v = static_cast<float>(v + 1000);
  for (std::size_t i = 0; i < shifted.size(); i += 5) mean += shifted[i] / 1024;
  for (std::size_t i = 0; i < shifted.size(); i += 5) var += std::pow(shifted[i] - mean, 2) / 1024;
  const BatchNormResult n = batch_norm(Tensor::from(shifted, x.shape()).to(DType::f32), {}, {});
  EXPECT_NEAR(n.mean.value().at(0), mean, 1e-4);  // the spacing of f32 near 1000 is 6e-5
  EXPECT_NEAR(n.var.value().at(0) / var, 1, 1e-5);
}

TEST_F(Norms, LongChannelsAreAccurate) {
  // Plain f32 sums over these rows lost 3e-6 of the mean and 7e-4 of the weight's gradient.
  const Tensor x = noise({4, 64, 64, 3}, 1, DType::f32, 2), gy = noise({4, 64, 64, 3}, 2, DType::f32);
  Tensor shifted = gy.clone();  // the error of the mean is multiplied by the average of gy, which is now about 1
  accumulate(shifted, Tensor::full(gy.shape(), 1));
  const auto run = [&](DType dtype) {
    Variable w(Tensor::full({3}, 1, dtype), true);
    const BatchNormResult n = batch_norm(x.to(dtype), w, {});
    backward(n.y, shifted.to(dtype));
    return std::pair(n.mean.value(), w.grad());
  };
  const auto [mean, gw] = run(DType::f32);
  const auto [exact_mean, exact_gw] = run(DType::f64);
  for (std::int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(mean.at(c), exact_mean.at(c), 1e-8);  // one rounding of a mean of about 0.02
    EXPECT_NEAR(gw.at(c), exact_gw.at(c), 1e-3);  // 16,384 products of about 1 in f32 blocks: 2^-24 of their magnitude
  }
}

TEST_F(Norms, TheNumberOfThreadsDoesNotAffectTheBits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = noise({3, 40, 33, 24}, 1, dtype), r = noise({3, 40, 33, 24}, 2, dtype);
    const Tensor w = noise({24}, 3, DType::f32), b = noise({24}, 4, DType::f32);
    test::check_threads([](const auto& v) { return std::vector{layer_norm(v[0], v[1], v[2])}; }, {x, w, b});
    test::check_threads([](const auto& v) { return std::vector{group_norm(v[0], 3, v[1], v[2])}; }, {x, w, b});
    test::check_threads(
        [](const auto& v) { return std::vector{batch_norm(v[0], v[1], v[2], {.relu = true, .residual = v[3]}).y}; },
        {x, w, b, r});
  }
}

TEST_F(Norms, NanReachesTheValuesThatItIsAveragedWith) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values = noise({4, 6}, 1).to_vector<double>();
  values[7] = nan;  // row 1, channel 1
  const Tensor x = Tensor::from(values, {4, 6}).to(DType::f32);
  const auto is_nan = [](const Variable& y, std::int64_t i) { return std::isnan(y.value().at(i)); };
  const Variable rows = layer_norm(x), rms = rms_norm(x), groups = group_norm(x, 2);
  const BatchNormResult columns = batch_norm(x, {}, {}, {.relu = true});
  for (std::int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(is_nan(rows, i), i / 6 == 1);
    EXPECT_EQ(is_nan(rms, i), i / 6 == 1);
    EXPECT_EQ(is_nan(groups, i), i / 6 == 1 && i % 6 < 3);
    EXPECT_EQ(is_nan(columns.y, i), i % 6 == 1);
  }
  EXPECT_TRUE(is_nan(columns.mean, 1) && is_nan(columns.var, 1));
}

TEST_F(Norms, AChannelSliceGivesTheBitsOfItsCopy) {
  const Tensor wide = noise({2, 4, 4, 24}, 1, DType::f32), x = wide.channel_slice(5, 9);
  EXPECT_FALSE(x.contiguous());
  const auto same = [](const Variable& a, const Variable& b) {
    EXPECT_EQ(a.value().to_vector<float>(), b.value().to_vector<float>());
  };
  same(layer_norm(x), layer_norm(x.clone()));
  same(group_norm(x, 3), group_norm(x.clone(), 3));
  same(batch_norm(x, {}, {}).y, batch_norm(x.clone(), {}, {}).y);
}

TEST_F(Norms, AddLayerNormIsAddThenLayerNorm) {
  const Tensor x = noise({3, 20}, 1, DType::f16), r = noise({3, 20}, 2, DType::f16);
  const AddNormResult n = add_layer_norm(x, r);
  std::vector<float> sum;
  for (std::int64_t i = 0; i < 60; ++i)
    sum.push_back(float16::from_float(static_cast<float>(x.at(i)) + static_cast<float>(r.at(i))).to_float());
  EXPECT_EQ(n.h.value().to_vector<float>(), sum);
  EXPECT_EQ(n.y.value().to_vector<float>(), layer_norm(n.h.detach()).value().to_vector<float>());
}

TEST_F(Norms, WrongShapesAreErrorsThatNameThem) {
  const Tensor x = noise({4, 6}, 1, DType::f32), w = noise({5}, 2, DType::f32);
  EXPECT_THROW(layer_norm(x, w), ShapeError);
  EXPECT_THROW(group_norm(x, 4), ShapeError);
  EXPECT_THROW(batch_norm(Tensor::zeros({0, 3}), {}, {}), ShapeError);
  EXPECT_THROW(layer_norm(Tensor::zeros({2, 3}, DType::i32)), DTypeError);
}

TEST_F(Norms, EmptyInputsGiveEmptyOutputs) {
  EXPECT_EQ(layer_norm(Tensor::zeros({0, 6})).shape(), (Shape{0, 6}));
  EXPECT_EQ(group_norm(Tensor::zeros({0, 2, 2, 6}), 2).shape(), (Shape{0, 2, 2, 6}));
  Variable x(Tensor::zeros({0, 6}), true), w(Tensor::full({6}, 1), true);
  const Variable y = layer_norm(x, w);
  backward(y, Tensor::zeros({0, 6}));
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(6, 0.0f));
}

}  // namespace
}  // namespace binade
