#include "binade/autograd/functions/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/convolutions.h"
#include "binade/core/precision.h"
#include "binade/core/random.h"
#include "binade/core/step_context.h"
#include "tests/cuda/device.h"

namespace binade {
namespace {

/// Sizes at which the device divides its work differently than in the conformance suite: reads of four elements, whole
/// tiles, several runs of pixels, groups of few and of many channels.
struct Sizes {
  const char* name;
  Shape x, w;
  ops::Conv2d::Params p = {};
  std::int64_t slice = 0;  ///< number of channels before x in a wider tensor
};

const Sizes kSizes[] = {
    {"in_fours", {1, 13, 11, 20}, {12, 3, 3, 20}, {.padding = 1}},
    {"several_tiles", {2, 17, 16, 36}, {72, 3, 3, 36}, {.padding = 1}},
    {"strided", {1, 23, 22, 16}, {20, 3, 3, 16}, {.stride = 2, .padding = 1}},
    {"strided_dilated", {1, 21, 19, 8}, {8, 3, 2, 8}, {.stride = {3, 2}, .padding = {2, 1}, .dilation = {2, 3}}},
    {"stride_beyond_filter", {1, 17, 19, 8}, {8, 2, 2, 8}, {.stride = 3}},
    {"slice_in_fours", {1, 9, 9, 16}, {8, 3, 3, 16}, {.padding = 1}, 8},
    {"slice_across", {1, 9, 9, 16}, {8, 3, 3, 16}, {.padding = 1}, 2},
    {"wide_groups", {1, 9, 8, 40}, {64, 3, 3, 20}, {.padding = 1, .groups = 2}},
    {"narrow_groups", {2, 9, 8, 24}, {48, 3, 3, 2}, {.stride = 2, .padding = 1, .groups = 12}},
    {"many_pixels", {3, 24, 24, 4}, {4, 3, 3, 4}, {.padding = 1}},
    {"first_layer", {1, 40, 30, 3}, {64, 3, 3, 3}, {.padding = 1}},
    {"one_filter", {1, 12, 13, 24}, {1, 1, 1, 24}},
    {"odd_slice", {1, 9, 9, 5}, {7, 3, 3, 5}, {.padding = 1}, 3},
    {"pointwise", {2, 12, 12, 64}, {32, 1, 1, 64}},
};

Tensor random(const Shape& shape, std::uint64_t tag) {
  const RandomStream stream{.seed = 11, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(values, shape);
}

/// Returns y, gx, gw and gbias on the host.
std::vector<Tensor> results(const Sizes& s, DType dtype, DType wide, const Device& device) {
  const Tensor channels = random(s.x.with_dim(-1, s.x[3] + s.slice), 1).to(dtype).to(wide).to(device);
  const Variable x(s.slice > 0 ? channels.channel_slice(s.slice, s.x[3]) : channels, true);
  const Variable w(random(s.w, 2).to(dtype).to(wide).to(device), true);
  const Variable bias(random(Shape{s.w[0]}, 3).to(wide == DType::f64 ? DType::f64 : DType::f32).to(device), true);
  const PolicyScope scope(is_half(wide) ? PrecisionPolicy{}.with("*", wide) : PrecisionPolicy{});
  const Variable y = conv2d(x, w, bias, s.p);
  backward(y, random(y.shape(), 4).to(dtype).to(y.dtype()).to(device));
  std::vector<Tensor> all;
  for (const Tensor& t : {y.value(), x.grad(), w.grad(), bias.grad()})
    all.push_back(t.to(Device::cpu()).to(DType::f64));
  return all;
}

class CudaConv : public testing::TestWithParam<Sizes> {};

TEST_P(CudaConv, AgreesWithTheCpuInDouble) {
  const Sizes& s = GetParam();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const std::vector<Tensor> exact = results(s, dtype, DType::f64, Device::cpu());
    const std::vector<Tensor> got = results(s, dtype, dtype, test_device());
    const double tolerance = dtype == DType::f64   ? 1e-13
                             : dtype == DType::f32 ? 2e-6
                             : dtype == DType::f16 ? 1e-3
                                                   : 8e-3;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const std::vector<double> want = exact[k].to_vector<double>(), have = got[k].to_vector<double>();
      ASSERT_EQ(want.size(), have.size());
      double scale = 0;
      for (const double v : want) scale = std::max(scale, std::abs(v));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(have[i], want[i], tolerance * scale) << name_of(dtype) << ", result " << k << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaConv, testing::ValuesIn(kSizes), [](const auto& test) { return test.param.name; });

/// Input and result are slices of wider tensors: the values between the slice's pixels must not change.
TEST(CudaConvEdges, ResultsMayBeSlices) {
  const Shape x{2, 7, 6, 8}, w{12, 3, 3, 8}, y{2, 7, 6, 12};
  const Tensor wide_x = random(x.with_dim(-1, 16), 1).to(DType::f32),
               wide_y = random(y.with_dim(-1, 20), 2).to(DType::f32);
  const Tensor filter = random(w, 3).to(DType::f32);
  const ConvShape shape = ops::conv_shape(x, w, y, ops::Conv2d::Params{.padding = 1});
  const auto run = [&](const Device& device, bool transposed) {
    const Tensor source = (transposed ? wide_y : wide_x).to(device), f = filter.to(device);
    Tensor result = (transposed ? wide_x : wide_y).clone().to(device);
    const std::int64_t from = transposed ? 4 : 8, to = transposed ? 8 : 4;
    const ConvArgs args{.shape = shape,
                        .transposed = transposed,
                        .source = source.channel_slice(from, transposed ? 12 : 8).raw(),
                        .source_pitch = source.shape().cols(),
                        .filter = f.raw(),
                        .result = result.channel_slice(to, transposed ? 8 : 12).mutable_raw(),
                        .result_pitch = result.shape().cols()};
    kernels(device).conv(args);
    return result.to(Device::cpu()).to_vector<double>();
  };
  for (const bool transposed : {false, true}) {
    const std::vector<double> want = run(Device::cpu(), transposed), have = run(test_device(), transposed);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(have[i], want[i], 1e-4) << transposed << ", element " << i;
  }
}

TEST(CudaConvEdges, WithoutPixelsWeightGradientsAreZero) {
  const Variable x(Tensor::zeros({0, 4, 4, 4}, DType::f32).to(test_device()), true);
  const Variable w(random({4, 3, 3, 4}, 1).to(DType::f32).to(test_device()), true);
  const Variable y = conv2d(x, w);
  backward(y, Tensor::zeros(y.shape(), DType::f32).to(test_device()));
  for (const double v : w.grad().to_vector<double>()) EXPECT_EQ(v, 0.0);
}

}  // namespace
}  // namespace binade
