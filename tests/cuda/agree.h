#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Returns values in [low, high] in f64 on the CPU, a function of tag and index.
Tensor random_values(const Shape& shape, std::uint64_t tag, double low = -1, double high = 1);

/// One input of an op: values in f64.
struct TestInput {
  Tensor values{};
  bool parameter = false;   ///< true: stays f32 when the op works in 16 bits
  std::int64_t before = 0;  ///< if not 0, the input is a channel slice that starts at this channel
};

/// Largest error of results and gradients, as a share of the largest value.
struct Tolerance {
  double f32 = 4e-6, f16 = 2e-3, bf16 = 1.6e-2, f64 = 1e-12;
};

/// Compares the results of `run` and the gradients of all inputs on the test device, in every floating-point dtype,
/// with those of the CPU in double for the same rounded inputs.
void expect_agreement(const std::vector<TestInput>& inputs,
                      const std::function<Variable(const std::vector<Variable>&)>& run,
                      const Tolerance& tolerance = {});

}  // namespace binade
