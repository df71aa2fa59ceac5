#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/parallel.h"
#include "binade/core/random.h"

namespace binade::test {

/// Returns values in about [-1, 1], a function of tag and index.
inline Tensor noise(const Shape& shape, std::uint64_t tag, DType dtype = DType::f64, double scale = 1) {
  const RandomStream stream{.seed = 20, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * (2.0 * stream.uniform(i) - 1.0);
  return Tensor::from(values, shape).to(dtype);
}

using Function = std::function<std::vector<Variable>(const std::vector<Variable>&)>;

/// Returns a sum of all outputs with random weights, so that errors of opposite sign do not cancel.
inline double weighted(const std::vector<Variable>& outputs) {
  double sum = 0;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::vector<double> y = outputs[k].value().to_vector<double>();
    const std::vector<double> g = noise(outputs[k].shape(), 100 + k).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * g[i];
  }
  return sum;
}

/// Compares the gradients of all f64 inputs with central differences. The tolerance of 1e-6 covers the error of the
/// differences (1e-10 relative, plus h^2 times the third derivative), but not a wrong term.
inline void check_gradients(const Function& f, const std::vector<Tensor>& inputs, double tolerance = 1e-6) {
  std::vector<Variable> leaves;
  for (const Tensor& x : inputs) leaves.emplace_back(x.clone(), is_floating(x.dtype()));
  const std::vector<Variable> outputs = f(leaves);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    backward(outputs[k], noise(outputs[k].shape(), 100 + k), {.retain_graph = true});
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    ASSERT_TRUE(leaves[i].grad().defined()) << "input " << i;
    const std::vector<double> got = leaves[i].grad().to_vector<double>();
    for (std::int64_t e = 0; e < inputs[i].numel(); ++e) {
      const double h = 1e-5;
      std::vector<Variable> moved;
      for (const Tensor& x : inputs) moved.emplace_back(x.clone());
      double* value = const_cast<double*>(moved[i].value().data<double>()) + e;
      const double x0 = *value;
      *value = x0 + h;
      const double up = weighted(f(moved));
      *value = x0 - h;
      const double down = weighted(f(moved));
      EXPECT_NEAR(got[static_cast<std::size_t>(e)], (up - down) / (2 * h), tolerance * (1 + std::abs(up - down) / h))
          << "input " << i << " element " << e;
    }
  }
}

/// Returns all outputs and gradients of one run.
inline std::vector<double> run_bits(const Function& f, const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& x : inputs) leaves.emplace_back(x.clone(), is_floating(x.dtype()));
  std::vector<double> bits;
  const auto append = [&bits](const Tensor& t) {
    for (const double v : t.to_vector<double>()) bits.push_back(v);
  };
  const std::vector<Variable> outputs = f(leaves);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    append(outputs[k].value());
    backward(outputs[k], noise(outputs[k].shape(), 100 + k, outputs[k].dtype()), {.retain_graph = true});
  }
  for (const Variable& leaf : leaves)
    if (leaf.requires_grad() && leaf.grad().defined()) append(leaf.grad());
  return bits;
}

/// Expects the same bits with 1, 2, 3, 4 and 8 threads.
inline void check_threads(const Function& f, const std::vector<Tensor>& inputs) {
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<double> wanted = run_bits(f, inputs);
  for (const int threads : {2, 3, 4, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(run_bits(f, inputs), wanted) << threads << " threads";
  }
  set_num_threads(before);
}

/// Compares `got` with a reference in double. Tolerance: `ulps` f32 ulps of the largest value (because the statistics
/// of a row contain the rounding errors of all its values) and, in 16 bits, one rounding of the value.
inline void check_close(const Tensor& got, const std::vector<double>& wanted, double ulps) {
  ASSERT_EQ(static_cast<std::size_t>(got.numel()), wanted.size());
  const double rounding = is_half(got.dtype()) ? std::ldexp(0.5, -range_of(got.dtype()).mantissa_bits) : 0;
  double largest = 0;
  for (const double w : wanted) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(got.at(static_cast<std::int64_t>(i)), wanted[i],
                ulps * std::ldexp(largest, -23) + rounding * std::abs(wanted[i]) +
                    (rounding > 0 ? std::ldexp(1.0, -25) : 0))
        << i;
}

}  // namespace binade::test
