#include "amp/incident/pole_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/unary.h"

namespace binade::amp {
namespace {

constexpr double kEps = 1e-5;
// Below it 1 / x^2, and what else a derivative may hold, comes near to the largest float; in f16 even 1 / x does.
double pole_range(DType dtype) { return dtype == DType::f16 ? 0x1p-14 : 1e-18; }
// Far enough for every dtype: 1 / x is 1000.
constexpr double kDistance = 1e-3;

/// Operands in which the pole lies: the divisor of a division, all there are else.
std::size_t first_operand(std::size_t count) { return count == 2 ? 1 : 0; }

/// The legal range of an operand, its bounds the poles; as far as the contract has them.
struct Legal {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};
Legal legal_range(const OpInfo& info) {
  Legal legal;
  if (std::isfinite(info.numerics.safe_low)) legal.low = info.numerics.safe_low;
  if (std::isfinite(info.numerics.safe_high)) legal.high = info.numerics.safe_high;
  return legal;
}

bool near_pole(double x, double pole, double range, const Legal& legal) {
  return std::abs(x - pole) < range || x < legal.low || x >= legal.high;
}

double moved(double x, double pole, const Legal& legal) {
  if (std::isnan(x)) return x;
  if (std::isfinite(legal.high)) return std::clamp(x, legal.low + kDistance, legal.high - kDistance);
  if (std::isfinite(legal.low)) return std::max(x, pole + kDistance);
  return std::abs(x - pole) < kDistance ? pole + kDistance : x;
}

/// Rows in which everything is -inf become rows of zeros.
Tensor without_empty_rows(const Tensor& tensor) {
  Tensor wide = tensor.to(DType::f32).clone();
  const std::int64_t width = wide.dim(wide.rank() - 1);
  auto* x = wide.mutable_data<float>();
  for (std::int64_t begin = 0; width > 0 && begin < wide.numel(); begin += width)
    if (std::all_of(x + begin, x + begin + width, [](float v) { return std::isinf(v) && v < 0; }))
      std::fill(x + begin, x + begin + width, 0.0f);
  return wide.to(tensor.dtype());
}

}  // namespace

bool touches_pole(const OpCall& call, std::span<const Tensor> operands) {
  if (const auto* division = call.params_of<ops::DivScalar>()) return division->scalar == 0;
  const OpInfo& info = call.info;
  if (std::isnan(info.numerics.pole)) return false;
  const Legal legal = legal_range(info);
  const bool loss = info.family == OpFamily::kLoss;  // its second operand is the targets
  const std::size_t begin = loss ? 0 : first_operand(operands.size()), end = loss ? 1 : operands.size();
  for (std::size_t i = begin; i < end; ++i) {
    if (!operands[i].defined() || !is_floating(operands[i].dtype())) continue;
    for (const double x : operands[i].to(DType::f64).to_vector<double>())
      if (near_pole(x, info.numerics.pole, pole_range(operands[i].dtype()), legal)) return true;
  }
  return false;
}

double PoleGuard::eps_of(const OpCall& call, double eps) { return concerns(call) ? std::max(eps, kEps) : eps; }

void PoleGuard::before_forward(const OpCall& call, std::span<const Variable>, Tensors& read) {
  if (!concerns(call)) return;
  const Numerics& numerics = call.info.numerics;
  if (numerics.non_finite == NonFinite::kMasks) read[0] = without_empty_rows(read[0]);
  if (std::isnan(numerics.pole)) return;
  const Legal legal = legal_range(call.info);
  const std::size_t begin = call.info.family == OpFamily::kLoss ? 0 : first_operand(read.size());
  Tensor& operand = read[begin];
  if (!operand.defined() || !is_floating(operand.dtype())) return;
  Tensor wide = operand.to(DType::f64).clone();
  auto* x = wide.mutable_data<double>();
  for (std::int64_t i = 0; i < wide.numel(); ++i) x[i] = moved(x[i], numerics.pole, legal);
  operand = wide.to(operand.dtype());
}

}  // namespace binade::amp
