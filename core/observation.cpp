#include "core/observation.h"

#include <utility>

#include "core/kernels/dispatch.h"
#include "core/kernels/elementwise.h"
#include "core/parallel.h"
#include "core/tensor.h"

namespace binade {
namespace {

thread_local Observation t_seen;

}  // namespace

namespace detail {

void note(const Observation& seen) { t_seen.merge(seen); }
Observation exchange_observation(const Observation& next) { return std::exchange(t_seen, next); }

}  // namespace detail

ObservationScope::ObservationScope() : outer_(detail::exchange_observation({})) {}
ObservationScope::~ObservationScope() { detail::exchange_observation(outer_); }
Observation ObservationScope::take() { return detail::exchange_observation({}); }

Observation observe(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.numel() == 0) return {};
  ObservationScope scope;
  const Tensor flat = tensor.to(tensor.dtype() == DType::f64 ? DType::f32 : tensor.dtype()).contiguous_copy();
  scope.take();  // what a conversion saw
  constexpr std::int64_t kGrain = 1 << 15;
  const cpu::In values{flat.raw(), flat.dtype()};
  parallel_for(flat.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::kernels().pointwise.elementwise->observe(values.at(begin), end - begin);
  });
  return scope.take();
}

}  // namespace binade
