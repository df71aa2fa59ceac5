#include "binade/amp/incident/pole_guard.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/incident/pole.h"

namespace binade::amp {
namespace {

constexpr double kEps = 1e-5;
// Far enough for every dtype: 1 / x is 1000.
constexpr double kDistance = 1e-3;

double moved(double x, double pole, const Legal& legal) {
  if (std::isnan(x)) return x;
  if (std::isfinite(legal.high)) return std::clamp(x, legal.low + kDistance, legal.high - kDistance);
  if (std::isfinite(legal.low)) return std::max(x, pole + kDistance);
  return std::abs(x - pole) < kDistance ? pole + kDistance : x;
}

/// Rows in which everything is -inf become rows of zeros.
Tensor without_empty_rows(const Tensor& tensor) {
  Tensor wide = tensor.to(DType::f32).on_host().clone();
  const std::int64_t width = wide.dim(wide.rank() - 1);
  auto* x = wide.mutable_data<float>();
  for (std::int64_t begin = 0; width > 0 && begin < wide.numel(); begin += width)
    if (std::all_of(x + begin, x + begin + width, [](float v) { return std::isinf(v) && v < 0; }))
      std::fill(x + begin, x + begin + width, 0.0f);
  return wide.to(tensor.dtype()).to(tensor.device());
}

}  // namespace

double PoleGuard::eps_of(const OpCall& call, double eps) { return concerns(call) ? std::max(eps, kEps) : eps; }

void PoleGuard::before_forward(const OpCall& call, std::span<const Variable>, Tensors& read) {
  if (!concerns(call)) return;
  const Numerics& numerics = call.info.numerics;
  if (numerics.non_finite == NonFinite::kMasks) read[0] = without_empty_rows(read[0]);
  if (std::isnan(numerics.pole)) return;
  const Legal legal = legal_range(call.info);
  Tensor& operand = read[pole_operands(call.info, read.size()).begin];
  if (!operand.defined() || !is_floating(operand.dtype())) return;
  Tensor wide = operand.to(DType::f64).on_host().clone();
  auto* x = wide.mutable_data<double>();
  for (std::int64_t i = 0; i < wide.numel(); ++i) x[i] = moved(x[i], numerics.pole, legal);
  operand = wide.to(operand.dtype()).to(operand.device());
}

}  // namespace binade::amp
