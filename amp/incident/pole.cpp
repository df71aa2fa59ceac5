#include "amp/incident/pole.h"

#include <algorithm>
#include <cmath>

#include "core/ops/unary.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Below it 1 / x^2, and what else a derivative may hold, comes near to the largest float; in f16 even 1 / x does.
double pole_range(DType dtype) { return dtype == DType::f16 ? 0x1p-14 : 1e-18; }

/// Of the nearest value; 0 for one that is beyond what is legal.
double nearest(const Tensor& operand, double pole, const Legal& legal) {
  const Tensor flat = operand.on_host();
  double least = kInfinity;
  dispatch_float(flat.dtype(), "pole distance", [&]<class T>(TypeTag<T>) {
    const T* x = flat.data<T>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const auto value = static_cast<double>(load(x[i]));
      const double distance = value < legal.low ? 0 : std::min(std::abs(value - pole), legal.high - value);
      if (distance < least) least = std::max(distance, 0.0);
    }
  });
  return least;
}

}  // namespace

Legal legal_range(const OpInfo& info) {
  Legal legal;
  if (std::isfinite(info.numerics.safe_low)) legal.low = info.numerics.safe_low;
  if (std::isfinite(info.numerics.safe_high)) legal.high = info.numerics.safe_high;
  return legal;
}

PoleOperands pole_operands(const OpInfo& info, std::size_t count) {
  if (info.family == OpFamily::kLoss) return {0, std::min<std::size_t>(count, 1)};  // the second are the targets
  return {count == 2 ? 1u : 0u, count};
}

PoleDistance pole_distance(const OpCall& call, std::span<const Tensor> operands) {
  PoleDistance least;
  if (const auto* division = call.params_of<ops::DivScalar>()) {
    if (division->scalar == 0) least.binades = -kInfinity;
    return least;
  }
  if (std::isnan(call.info.numerics.pole)) return least;
  const Legal legal = legal_range(call.info);
  const PoleOperands in = pole_operands(call.info, operands.size());
  for (std::size_t i = in.begin; i < in.end; ++i) {
    const Tensor& x = operands[i];
    if (!x.defined() || !is_floating(x.dtype())) continue;
    const double binades = std::log2(nearest(x, call.info.numerics.pole, legal) / pole_range(x.dtype()));
    if (binades < least.binades) least = {x.dtype(), binades};
  }
  return least;
}

}  // namespace binade::amp
