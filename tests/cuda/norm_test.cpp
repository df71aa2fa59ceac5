#include "binade/autograd/functions/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/core/runtime.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/linear.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

namespace binade {
namespace {

/// Row lengths at which the device changes its method: the number of threads per row, the values in registers, and
/// whether the parameter gradients are summed in the same pass.
struct Rows {
  const char* name;
  Shape shape;
  std::int64_t slice = 0;
};

const Rows kRows[] = {
    {"one_pack", {70, 8}},          {"part_of_a_warp", {37, 40}},   {"a_warp", {33, 256}},
    {"packs_of_a_warp", {21, 520}}, {"most_of_a_warp", {9, 1024}},  {"a_block", {11, 1032}},
    {"a_wide_block", {3, 4104}},    {"unfused_sums", {3, 8200}},    {"too_wide_to_keep", {2, 16392}},
    {"unaligned_block", {3, 2001}}, {"slice_in_packs", {5, 64}, 8}, {"slice_across", {5, 2048}, 3},
    {"many_stripes", {4500, 16}},
};

class CudaRowNorm : public testing::TestWithParam<Rows> {};

TEST_P(CudaRowNorm, LayerNormAgreesWithTheCpuInDouble) {
  const Rows& s = GetParam();
  const Shape channels{s.shape.cols()};
  expect_agreement({{random_values(s.shape, 1, 0, 3), false, s.slice},
                    {random_values(channels, 2, 0.5, 1.5), true},
                    {random_values(channels, 3), true}},
                   [](const std::vector<Variable>& x) { return layer_norm(x[0], x[1], x[2]); });
}

TEST_P(CudaRowNorm, AddRmsNormAgreesWithTheCpuInDouble) {
  const Rows& s = GetParam();
  // In 16 bits the sum is rounded once more than in double; multiples of a power of two avoid this rounding.
  const auto exact = [&](std::uint64_t tag) {
    Tensor t = random_values(s.shape, tag, -8, 8);
    for (std::int64_t i = 0; i < t.numel(); ++i) t.mutable_data<double>()[i] = std::round(t.at(i)) / 4;
    return t;
  };
  expect_agreement({{exact(1), false, s.slice}, {exact(4)}, {random_values({s.shape.cols()}, 2, 0.5, 1.5), true}},
                   [](const std::vector<Variable>& x) {
                     const AddNormResult n = add_rms_norm(x[0], x[1], x[2]);
                     return n.y;
                   });
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaRowNorm, testing::ValuesIn(kRows), [](const auto& test) { return test.param.name; });

TEST(CudaRowNormEdges, WithoutRowsParameterGradientsAreZero) {
  const Variable x(Tensor::zeros({0, 16}, DType::f32, test_device()), true);
  const Variable w(Tensor::full({16}, 1, DType::f32, test_device()), true);
  const Variable y = layer_norm(x, w);
  backward(y, Tensor::zeros(y.shape(), DType::f32, test_device()));
  for (const double v : w.grad().to_vector<double>()) EXPECT_EQ(v, 0.0);
}

/// Image sizes at which the device divides its work differently: several stripes of rows, several tiles of channels.
const Rows kImages[] = {
    {"several_stripes", {3, 40, 41, 16}}, {"two_tiles", {2, 9, 9, 264}},
    {"odd_tiles", {2, 7, 5, 70}},         {"one_pack", {20000, 8}},
    {"slice", {2, 8, 9, 24}, 8},          {"slice_across", {2, 8, 9, 24}, 4},
    {"one_row", {1, 1, 1, 32}},
};

class CudaColumnNorm : public testing::TestWithParam<Rows> {};

TEST_P(CudaColumnNorm, BatchNormAgreesWithTheCpuInDouble) {
  const Rows& s = GetParam();
  if (s.shape.rows() == 1) return;  // the variance is 0
  const Shape channels{s.shape.cols()};
  for (const bool relu : {false, true})
    expect_agreement({{random_values(s.shape, 1, -1, 3), false, s.slice},
                      {random_values(channels, 2, 0.5, 1.5), true},
                      {random_values(channels, 3), true}},
                     [relu](const std::vector<Variable>& x) { return batch_norm(x[0], x[1], x[2], {.relu = relu}).y; });
}

TEST_P(CudaColumnNorm, BatchNormWithGivenStatisticsAgrees) {
  const Rows& s = GetParam();
  const Shape channels{s.shape.cols()};
  const Tensor mean = random_values(channels, 5).to(DType::f32),
               var = random_values(channels, 6, 0.5, 2).to(DType::f32);
  expect_agreement({{random_values(s.shape, 1), false, s.slice},
                    {random_values(channels, 2, 0.5, 1.5), true},
                    {random_values(channels, 3), true},
                    {random_values(s.shape, 4)}},
                   [&](const std::vector<Variable>& x) {
                     return batch_norm_with(x[0], mean.to(x[0].device()), var.to(x[0].device()), x[1], x[2],
                                            {.relu = true, .residual = x[3]});
                   });
}

TEST_P(CudaColumnNorm, GroupNormAgreesWithTheCpuInDouble) {
  const Rows& s = GetParam();
  const Shape channels{s.shape.cols()};
  const Shape shape = s.shape.rank() == 2 ? Shape{2, s.shape[0] / 2, s.shape[1]} : s.shape;
  expect_agreement({{random_values(shape, 1, -1, 3), false, s.slice},
                    {random_values(channels, 2, 0.5, 1.5), true},
                    {random_values(channels, 3), true},
                    {random_values(shape, 4)}},
                   [](const std::vector<Variable>& x) {
                     return group_norm(x[0], 2, x[1], x[2], {.relu = true, .residual = x[3]});
                   });
}

INSTANTIATE_TEST_SUITE_P(Images, CudaColumnNorm, testing::ValuesIn(kImages),
                         [](const auto& test) { return test.param.name; });

TEST(CudaColumnNormEdges, ACommonOffsetDoesNotReduceAccuracy) {
  const Tensor x = random_values({5000, 8}, 1, 10000, 10001).to(DType::f32);
  const Tensor ones = Tensor::full({8}, 1);
  const auto statistics = [&](DType dtype, const Device& device) {
    return batch_norm(x.to(dtype).to(device), ones.to(dtype).to(device), {}).var.value().to_vector<double>();
  };
  const std::vector<double> exact = statistics(DType::f64, Device::cpu()), got = statistics(DType::f32, test_device());
  for (std::size_t c = 0; c < exact.size(); ++c) EXPECT_NEAR(got[c], exact[c], 2e-6 * exact[c]);
}

TEST(CudaBatchNorm2d, UpdatesItsStatisticsOnTheDevice) {
  nn::BatchNorm2d norm({.channels = 16, .momentum = 0.25});
  const Tensor x = random_values({4, 6, 5, 16}, 1, -1, 3).to(DType::f32);
  ASSERT_EQ(norm.running_mean.value().device(), test_device());
  ASSERT_EQ(norm.weight.device(), test_device());

  const std::vector<double> values = x.to_vector<double>();
  const double n = 4 * 6 * 5;
  std::vector<double> mean(16, 0), var(16, 0);
  for (std::size_t i = 0; i < values.size(); ++i) mean[i % 16] += values[i] / n;
  for (std::size_t i = 0; i < values.size(); ++i)
    var[i % 16] += (values[i] - mean[i % 16]) * (values[i] - mean[i % 16]);
  const auto expect_moved = [&](double times) {
    const double rest = std::pow(0.75, times);
    const std::vector<double> m = norm.running_mean.value().to_vector<double>();
    const std::vector<double> v = norm.running_var.value().to_vector<double>();
    for (std::size_t c = 0; c < 16; ++c) {
      EXPECT_NEAR(m[c], (1 - rest) * mean[c], 1e-6);
      EXPECT_NEAR(v[c], rest + (1 - rest) * var[c] / (n - 1), 1e-6);
    }
    EXPECT_EQ(norm.num_batches_tracked.value().to_vector<std::int64_t>().at(0), static_cast<std::int64_t>(times));
  };
  norm(x.to(test_device()));
  expect_moved(1);
  {
    const nn::TransactionScope transaction;
    norm(x.to(test_device()));
  }
  expect_moved(2);
  norm.running_mean.rollback();
  norm.running_var.rollback();
  norm.num_batches_tracked.rollback();
  expect_moved(1);
}

/// The CPU scales rows whose variance overflows; on a device their result must be NaN, not silently the bias.
TEST(CudaNorms, RowsWhoseVarianceOverflowsAreNan) {
  const Shape shape{3, 8};
  std::vector<double> values(24, 1.0);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i < 8 && i % 2 == 0 ? 1e30 : static_cast<double>(i % 5);
  const Tensor x = Tensor::from(values, shape).to(DType::f32).to(test_device());
  for (const Tensor& y : {layer_norm(x).value(), rms_norm(x).value(), group_norm(x, 1).value()}) {
    const std::vector<double> got = y.to(Device::cpu()).to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i < 8) << i;
  }
  const std::vector<double> got = batch_norm(x, {}, {}).y.value().to(Device::cpu()).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i % 8 % 2 == 0) << i;
}

TEST(CudaModules, InitialWeightsHaveTheBitsOfTheCpu) {
  RandomStream stream = Runtime::current().next_init_stream();
  ++stream.index;
  const nn::Linear layer({.in = 16, .out = 3});
  ASSERT_EQ(layer.weight.device(), test_device());
  const std::vector<float> got = layer.weight.value().to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(-0.25 + 0.5 * stream.uniform(i)));
}

TEST(CudaModules, AStateOnTheHostCanBeLoaded) {
  nn::Linear layer({.in = 2, .out = 2});
  StateDict state;
  state.put("weight", Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}));
  state.put("bias", Tensor::from(std::vector<float>{5, 6}, {2}));
  nn::load_state_dict(layer, state);
  EXPECT_EQ(layer.weight.device(), test_device());
  EXPECT_EQ(layer.weight.value().to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(layer.bias.value().to_vector<float>(), (std::vector<float>{5, 6}));
}

}  // namespace
}  // namespace binade
