#include "binade/amp/watch/singularity.h"

#include <cmath>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/unary.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the smallest safe distance x from a singularity. Below it, 1 / x^2, which derivatives contain, comes near the
// largest float or, for f16, 1 / x near the largest f16.
double unsafe_distance(DType dtype) { return dtype == DType::f16 ? 0x1p-14 : 1e-18; }

/// Returns the smallest distance of an element from the singularity or from the upper end of the legal range; 0 if an
/// element is outside the legal range.
double nearest(const Tensor& operand, double singularity, const LegalRange& legal) {
  const Tensor flat = operand.on_host();
  double least = kInfinity;
  dispatch_float(flat.dtype(), "singularity distance", [&]<class T>(TypeTag<T>) {
    const T* x = flat.data<T>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const auto value = static_cast<double>(load(x[i]));
      const double distance = value < legal.low ? 0 : std::min(std::abs(value - singularity), legal.high - value);
      if (distance < least) least = std::max(distance, 0.0);
    }
  });
  return least;
}

/// Calls f(operand, singularity) for each floating-point operand that has a singularity.
template <class F>
void for_each_singular_operand(const OpCall& call, std::span<const Tensor> operands, F&& f) {
  for (const Singularity& s : singularities_in(call.info, operands.size())) {
    const Tensor& x = operands[static_cast<std::size_t>(s.input)];
    if (x.defined() && is_floating(x.dtype())) f(x, s.at);
  }
}

}  // namespace

LegalRange legal_range(const OpInfo& info) {
  LegalRange legal;
  if (std::isfinite(info.numerics.safe_low)) legal.low = info.numerics.safe_low;
  if (std::isfinite(info.numerics.safe_high)) legal.high = info.numerics.safe_high;
  return legal;
}

std::vector<Singularity> singularities_in(const OpInfo& info, std::size_t count) {
  std::vector<Singularity> found;
  for (const Singularity& s : info.stated_singularities()) {
    const bool end = s.at == info.numerics.safe_high && std::ranges::count(found, s.input, &Singularity::input) > 0;
    if (static_cast<std::size_t>(s.input) < count && !end) found.push_back(s);
  }
  return found;
}

SingularityDistance singularity_distance_of(double nearest, DType dtype) {
  return {dtype, std::log2(nearest / unsafe_distance(dtype))};
}

SingularityDistance singularity_distance(const OpCall& call, std::span<const Tensor> operands) {
  SingularityDistance least = singularity_distance_of_params(call);
  const LegalRange legal = legal_range(call.info);
  for_each_singular_operand(call, operands, [&](const Tensor& x, double at) {
    least.merge(singularity_distance_of(nearest(x, at, legal), x.dtype()));
  });
  return least;
}

SingularityDistance singularity_distance_of_params(const OpCall& call) {
  const auto* division = call.params_of<ops::DivScalar>();
  SingularityDistance distance;
  if (division != nullptr && division->scalar == 0) distance.binades = -kInfinity;
  return distance;
}

std::vector<NearestOnDevice> probe_singularity(const OpCall& call, std::span<const Tensor> operands,
                                               ProbeBuffer& buffer) {
  const LegalRange legal = legal_range(call.info);
  std::vector<NearestOnDevice> probes;
  for_each_singular_operand(call, operands, [&](const Tensor& x, double at) {
    const ProbeBuffer::Range range = buffer.allocate(1, x.device());
    kernels(x.device()).singularity_probe({probed_values(x), at, legal.low, legal.high, range.data});
    probes.push_back({range.first, x.dtype()});
  });
  return probes;
}

}  // namespace binade::amp
