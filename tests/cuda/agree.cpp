#include "tests/cuda/agree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/core/precision.h"
#include "binade/core/random.h"
#include "binade/core/step_context.h"
#include "tests/cuda/device.h"

namespace binade {
namespace {

Variable placed(const TestInput& input, DType rounded, DType wide, const Device& device) {
  const Tensor& v = input.values;
  if (input.parameter) {
    const Tensor stored = v.to(rounded == DType::f64 ? DType::f64 : DType::f32);
    return Variable(stored.to(wide == DType::f64 ? DType::f64 : DType::f32).to(device), true);
  }
  const Tensor low = v.to(rounded).to(wide);
  if (input.before == 0) return Variable(low.to(device), true);
  Tensor whole = Tensor::zeros(v.shape().with_dim(-1, v.shape().cols() + input.before), wide);
  whole.channel_slice(input.before, v.shape().cols()).copy_from(low);
  return Variable(whole.to(device).channel_slice(input.before, v.shape().cols()), true);
}

/// Returns y and the gradients of the inputs, computed in dtype `wide` from inputs rounded to dtype `rounded`.
std::vector<std::vector<double>> results(const std::vector<TestInput>& inputs,
                                         const std::function<Variable(const std::vector<Variable>&)>& run,
                                         DType rounded, DType wide, const Device& device) {
  const PolicyScope scope(is_half(wide) ? PrecisionPolicy{}.with("*", wide) : PrecisionPolicy{});
  step_context().next = OpNumbers::at(5);
  std::vector<Variable> variables;
  for (const TestInput& input : inputs) variables.push_back(placed(input, rounded, wide, device));
  const Variable y = run(variables);
  backward(y, random_values(y.shape(), 99).to(rounded).to(y.dtype()).to(device));
  std::vector<std::vector<double>> all{y.value().to_vector<double>()};
  for (const Variable& v : variables)
    all.push_back(v.grad().defined() ? v.grad().to_vector<double>() : std::vector<double>());
  return all;
}

}  // namespace

Tensor random_values(const Shape& shape, std::uint64_t tag, double low, double high) {
  const RandomStream stream{.seed = 11, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = low + (high - low) * stream.uniform(i);
  return Tensor::from(values, shape);
}

void expect_agreement(const std::vector<TestInput>& inputs,
                      const std::function<Variable(const std::vector<Variable>&)>& run, const Tolerance& tolerance) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const auto exact = results(inputs, run, dtype, DType::f64, Device::cpu());
    const auto got = results(inputs, run, dtype, dtype, test_device());
    const double allowed = dtype == DType::f64   ? tolerance.f64
                           : dtype == DType::f32 ? tolerance.f32
                           : dtype == DType::f16 ? tolerance.f16
                                                 : tolerance.bf16;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      ASSERT_EQ(exact[k].size(), got[k].size()) << name_of(dtype) << ", result " << k;
      double scale = 0;
      for (const double v : exact[k]) scale = std::max(scale, std::abs(v));
      for (std::size_t i = 0; i < exact[k].size(); ++i)
        ASSERT_NEAR(got[k][i], exact[k][i], allowed * scale) << name_of(dtype) << ", result " << k << ", element " << i;
    }
  }
}

}  // namespace binade
