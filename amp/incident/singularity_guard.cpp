#include "binade/amp/incident/singularity_guard.h"

#include <cmath>

#include "binade/amp/watch/singularity.h"

namespace binade::amp {
namespace {

constexpr double kEps = 1e-5;
// The distance by which operands are moved away from a singularity. 1 / x is then at most 1000, which is in the range
// of every dtype.
constexpr double kDistance = 1e-3;

double moved(double x, double singularity, const LegalRange& legal) {
  if (std::isnan(x)) return x;
  if (std::isfinite(legal.high)) return std::clamp(x, legal.low + kDistance, legal.high - kDistance);
  if (std::isfinite(legal.low)) return std::max(x, singularity + kDistance);
  return std::abs(x - singularity) < kDistance ? singularity + kDistance : x;
}

/// Returns a copy in which rows with only -inf are set to 0.
Tensor without_empty_rows(const Tensor& tensor) {
  Tensor wide = tensor.to(DType::f32).on_host().clone();
  const std::int64_t width = wide.rank() > 0 ? wide.dim(wide.rank() - 1) : 0;
  auto* x = wide.mutable_data<float>();
  for (std::int64_t begin = 0; width > 0 && begin < wide.numel(); begin += width)
    if (std::all_of(x + begin, x + begin + width, [](float v) { return std::isinf(v) && v < 0; }))
      std::fill(x + begin, x + begin + width, 0.0f);
  return wide.to(tensor.dtype()).to(tensor.device());
}

bool readable(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

/// True if input `i` may be a mask. If the op does not state which inputs are masks, any input may be one.
bool takes_mask(const OpInfo& info, std::size_t i) { return info.mask_inputs == 0 || info.takes_mask(i); }

}  // namespace

double SingularityGuard::eps_of(const OpCall& call, double eps) { return concerns(call) ? std::max(eps, kEps) : eps; }

void SingularityGuard::before_forward(const OpCall& call, std::span<const Variable>, Tensors& read) {
  if (!concerns(call)) return;
  const OpInfo& info = call.info;
  if (info.numerics.non_finite == NonFinite::kMasks)
    for (std::size_t i = 0; i < read.size(); ++i)
      if (takes_mask(info, i) && readable(read[i])) read[i] = without_empty_rows(read[i]);
  const LegalRange legal = legal_range(info);
  for (const Singularity& s : singularities_in(info, read.size())) {
    Tensor& operand = read[static_cast<std::size_t>(s.input)];
    if (!readable(operand)) continue;
    Tensor wide = operand.to(DType::f64).on_host().clone();
    auto* x = wide.mutable_data<double>();
    for (std::int64_t i = 0; i < wide.numel(); ++i) x[i] = moved(x[i], s.at, legal);
    operand = wide.to(operand.dtype()).to(operand.device());
  }
}

}  // namespace binade::amp
