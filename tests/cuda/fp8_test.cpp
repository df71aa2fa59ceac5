#include "core/ops/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "amp/policy.h"
#include "autograd/functions/matmul.h"
#include "nn/linear.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

namespace binade {
namespace {

struct Operand {
  const char* name;
  Shape shape;
  std::int64_t before = 0;  // channels that lie before these in memory
  std::int64_t behind = 0;
};

const Operand kOperands[] = {
    {"one", {1}},           {"packs", {6, 64}},        {"odd", {7, 13}},         {"many", {130, 1024}},
    {"row", {1, 24}, 8, 8}, {"slice", {9, 24}, 8, 16}, {"odd_slice", {9, 5}, 3}, {"no_rows", {0, 8}},
};

class CudaFp8 : public testing::TestWithParam<Operand> {
 protected:
  void SetUp() override { test_device(); }
};

/// Values over many binades, with zeros, an infinity and a NaN where there is room.
Tensor operand(const Operand& o) {
  const Shape whole = o.shape.with_dim(-1, o.before + o.shape.cols() + o.behind);
  Tensor values = random_values(whole, 3, -1, 1);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.mutable_data<double>()[i] *= std::exp2(static_cast<double>(i % 23) - 15);
  if (values.numel() > 300) {
    values.mutable_data<double>()[17] = std::nan("");
    values.mutable_data<double>()[200] = -std::numeric_limits<double>::infinity();
    values.mutable_data<double>()[201] = 0;
  }
  return values.to(DType::bf16);
}
Tensor sliced(const Tensor& whole, const Operand& o) { return whole.channel_slice(o.before, o.shape.cols()); }

void expect_same(const Tensor& got, const Tensor& wanted) {
  const std::vector<float> a = got.to_vector<float>(), b = wanted.to_vector<float>();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << i << ": " << a[i] << ", wanted " << b[i];
}

TEST_P(CudaFp8, RoundsToTheBitsOfTheCpuAndKeepsTheSameMagnitudes) {
  const Tensor here = operand(GetParam()), there = here.to(test_device());
  for (const auto what : {ops::Fp8Operand::kX, ops::Fp8Operand::kWeight, ops::Fp8Operand::kGradient}) {
    Tensor amaxes = ops::fp8_amaxes(Device::cpu()), device_amaxes = amaxes.to(test_device());
    const auto round_both = [&](const ops::Fp8Scaling& on_cpu, const ops::Fp8Scaling& on_device) {
      expect_same(ops::round_to_fp8(sliced(there, GetParam()), what, on_device),
                  ops::round_to_fp8(sliced(here, GetParam()), what, on_cpu));
      expect_same(device_amaxes, amaxes);
    };
    round_both({}, {});
    round_both({amaxes, true}, {device_amaxes, true});  // nothing to look back at
    for (int step = 0; step < 3; ++step) {
      ops::begin_fp8_step(amaxes);
      ops::begin_fp8_step(device_amaxes);
      // A history that is too small, one that is too large, and one that a fault has reached.
      const float factor = step == 0 ? 0.01f : step == 1 ? 300.0f : std::numeric_limits<float>::infinity();
      for (const int row : {0, 1, 2}) amaxes.mutable_data<float>()[17 * row + 1] *= factor;
      device_amaxes.copy_from(amaxes.to(test_device()));
      round_both({amaxes, true}, {device_amaxes, true});
      round_both({amaxes, false}, {device_amaxes, false});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operands, CudaFp8, testing::ValuesIn(kOperands),
                         [](const auto& test) { return test.param.name; });

TEST(CudaFp8Linear, StepsHaveTheBitsOfTheCpu) {
  // Whole numbers: products and sums are exact, so that their order does not show.
  const auto whole = [](const Shape& shape, std::uint64_t tag, double unit) {
    Tensor t = random_values(shape, tag, -200, 200);
    for (std::int64_t i = 0; i < t.numel(); ++i) t.mutable_data<double>()[i] = std::round(t.at(i)) * unit;
    return t.to(DType::bf16);
  };
  const amp::AutocastScope fp8(amp::Policy::fp8());
  nn::Linear layer({.in = 40, .out = 24});
  nn::use_fp8(layer);
  const Variable weight(whole({24, 40}, 1, 0x1p-12).to(DType::f32), true), bias(Tensor::zeros({24}), true);
  Tensor amaxes = ops::fp8_amaxes(Device::cpu());
  layer.weight.mutable_value().copy_from(weight.value().to(test_device()));
  layer.bias.mutable_value().fill(0);
  for (std::uint32_t step = 0; step < 3; ++step) {
    const Tensor x = whole({3, 7, 40}, 10 + step, std::exp2(3.0 * step)), gy = whole({3, 7, 24}, 20 + step, 0x1p-20);
    const Variable here(x, true), there(x.to(test_device()), true);
    ops::begin_fp8_step(amaxes);
    const Variable y = linear(here, weight, bias, {.fp8 = ops::Fp8Scaling{amaxes, true}}), device_y = layer(there);
    EXPECT_EQ(device_y.value().to_vector<float>(), y.value().to_vector<float>());
    backward(y, gy);
    backward(device_y, gy.to(test_device()));
    EXPECT_EQ(there.grad().to_vector<float>(), here.grad().to_vector<float>());
    EXPECT_EQ(layer.weight.grad().to_vector<float>(), weight.grad().to_vector<float>());
    EXPECT_EQ(layer.bias.grad().to_vector<float>(), bias.grad().to_vector<float>());
    EXPECT_EQ(layer.fp8_amax.value().to_vector<float>(), amaxes.to_vector<float>());
  }
}

}  // namespace
}  // namespace binade
