#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

struct GradcheckOptions {
  double step = 1e-5;  ///< the central difference has h = step max(1, |x|); its error is of order h^2
  double rtol = 1e-6;  ///< tolerance: atol + rtol |difference quotient| + rounding error of the quotient
  double atol = 1e-7;
  int max_elements = 48;          ///< at most this many elements of each input are checked, drawn with `seed`
  std::uint64_t seed = 1;         ///< seed of the cotangent and of the choice of elements
  Device device = Device::cpu();  ///< device that `f` runs on
};

struct GradcheckResult {
  bool passed = true;
  int checked = 0;        ///< number of elements compared
  std::string message{};  ///< op, input, position and both values of the first element that differs; empty if passed
};

/// Returns `x` on `device`. A channel slice stays a channel slice, unlike with Tensor::to, so that kernels are tested
/// with slices on that device too.
Tensor placed(const Tensor& x, Device device);

/// Compares the gradients that backward computes for `f` with central differences, in double.
///
/// `f` maps variables to one variable. `inputs` are converted to f64; those of an integer dtype are passed unchanged,
/// without a gradient. The differentiated scalar is sum(f(x) * cotangent) with a cotangent that differs between
/// elements, because errors of opposite sign would cancel in a plain sum. `f` must depend on its inputs alone. It
/// always runs from the same tape index, so that dropout draws the same numbers. Channel slices stay slices.
///
///   EXPECT_TRUE(result.passed) << result.message
///   "gradcheck of gelu: input 0 (3, 5), element (1, 4): backward gives 0.31, the difference quotient 0.27"
GradcheckResult gradcheck(const std::function<Variable(const std::vector<Variable>&)>& f,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

/// Checks second derivatives of `f`, with the arguments of gradcheck(). Compares the gradients that grad() records
/// (create_graph) with those of the ops' backward. Then differentiates the recorded gradients with respect to every
/// input and to the cotangent, and compares the results with central differences.
GradcheckResult gradgradcheck(const std::function<Variable(const std::vector<Variable>&)>& f,
                              const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace binade
