#pragma once

#include <functional>
#include <optional>

#include "binade/autograd/observer.h"

namespace binade::amp {

/// An elementwise op of one input with the parameters of one call, at one number. Both functions compute as the kernels
/// do, in float, before anything is rounded to the dtype it is stored in.
struct ScalarOp {
  std::function<double(double x)> value{};
  std::function<double(double x, double gy)> gradient{};
};

/// Nothing for ops that are not elementwise or have two inputs.
std::optional<ScalarOp> scalar_op(const OpCall& call);

}  // namespace binade::amp
