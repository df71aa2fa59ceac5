#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

struct GradcheckOptions {
  double step = 1e-5;  ///< h of the central difference, times max(1, |x|); its own error is of order h^2
  double rtol = 1e-6;  ///< allowed: atol + rtol |difference|, and the quotient's own rounding
  double atol = 1e-7;
  int max_elements = 48;          ///< checked in each input: all of a smaller one, else this many drawn from `seed`
  std::uint64_t seed = 1;         ///< of the cotangent and of that draw
  Device device = Device::cpu();  ///< where `f` is run
};

struct GradcheckResult {
  bool passed = true;
  int checked = 0;        ///< elements compared
  std::string message{};  ///< the first element that differs: op, input, element, both values; empty when it passed
};

/// `x` on `device`; unlike Tensor::to, a channel slice stays one, so that kernels walk there what they walk here.
Tensor placed(const Tensor& x, Device device);

/// Compares backward of `f` with central differences, in double.
///
/// `f` maps variables to one variable; `inputs` are taken in f64, those of an integer dtype as they are and without a
/// gradient. The scalar that is differentiated is sum(f(x) * cotangent), where the cotangent differs from element to
/// element: under a plain sum, errors of opposite sign would cancel. `f` must be a function of its inputs: it is run
/// from the same tape index every time, so that dropout draws the same numbers. A channel slice stays one.
///
///   EXPECT_TRUE(result.passed) << result.message
///   "gradcheck of gelu: input 0 (3, 5), element (1, 4): backward gives 0.31, the difference quotient 0.27"
GradcheckResult gradcheck(const std::function<Variable(const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace binade
