#include "binade/amp/incident/pole.h"

#include <algorithm>
#include <cmath>

#include "binade/core/look_kernels.h"
#include "binade/core/ops/unary.h"

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

/// The operands of a call that have a pole.
Tensors with_pole(const OpCall& call, std::span<const Tensor> operands) {
  Tensors found;
  if (call.params_of<ops::DivScalar>() != nullptr || std::isnan(call.info.numerics.pole)) return found;
  const PoleOperands in = pole_operands(call.info, operands.size());
  for (const Tensor& x : operands.subspan(in.begin, in.end - in.begin))
    if (x.defined() && is_floating(x.dtype())) found.push_back(x);
  return found;
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

PoleDistance pole_distance_of(double nearest, DType dtype) { return {dtype, std::log2(nearest / pole_range(dtype))}; }

PoleDistance pole_distance(const OpCall& call, std::span<const Tensor> operands) {
  PoleDistance least = pole_distance_by_number(call);
  const Legal legal = legal_range(call.info);
  for (const Tensor& x : with_pole(call, operands))
    least.merge(pole_distance_of(nearest(x, call.info.numerics.pole, legal), x.dtype()));
  return least;
}

PoleDistance pole_distance_by_number(const OpCall& call) {
  const auto* division = call.params_of<ops::DivScalar>();
  PoleDistance distance;
  if (division != nullptr && division->scalar == 0) distance.binades = -kInfinity;
  return distance;
}

std::vector<NearestThere> look_at_pole(const OpCall& call, std::span<const Tensor> operands, DeviceNumbers& numbers) {
  const Legal legal = legal_range(call.info);
  std::vector<NearestThere> looks;
  for (const Tensor& x : with_pole(call, operands)) {
    const DeviceNumbers::Place place = numbers.take(1, x.device());
    look_kernels()
        .on(x.device(), "pole distance")
        .pole({looked_at(x), call.info.numerics.pole, legal.low, legal.high, place.at});
    looks.push_back({place.number, x.dtype()});
  }
  return looks;
}

}  // namespace binade::amp
