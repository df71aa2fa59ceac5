#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Values in [low, high] in f64 on the CPU, different for every tag.
Tensor random_values(const Shape& shape, std::uint64_t tag, double low = -1, double high = 1);

/// One input of an op: values in f64.
struct TestInput {
  Tensor values{};
  bool parameter = false;   ///< f32 where the op works in a half
  std::int64_t before = 0;  ///< channels that lie before these in memory
};

/// How far a result or a gradient may be off, as a share of the largest.
struct Tolerance {
  double f32 = 4e-6, f16 = 2e-3, bf16 = 1.6e-2, f64 = 1e-12;
};

/// Holds `run`'s results and the gradients of all inputs on the test device, in every floating dtype, against the CPU's
/// in double on the same rounded inputs.
void expect_agreement(const std::vector<TestInput>& inputs,
                      const std::function<Variable(const std::vector<Variable>&)>& run,
                      const Tolerance& tolerance = {});

}  // namespace binade
