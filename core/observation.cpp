#include "core/observation.h"

#include <utility>

#include "core/gpus.h"
#include "core/tensor.h"
#include "core/tensor_kernels.h"

namespace binade {
namespace {

thread_local Observation t_seen;

}  // namespace

namespace detail {

void note(const Observation& seen) { t_seen.merge(seen); }
Observation exchange_observation(const Observation& next) { return std::exchange(t_seen, next); }

}  // namespace detail

ObservationScope::ObservationScope() : outer_(take()) {}
ObservationScope::~ObservationScope() {
  gpus::take_observation();
  detail::exchange_observation(outer_);
}
Observation ObservationScope::take() {
  Observation seen = detail::exchange_observation({});
  seen.merge(gpus::take_observation());
  return seen;
}

Observation observe(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.numel() == 0) return {};
  ObservationScope scope;
  const Tensor flat = tensor.to(tensor.dtype() == DType::f64 ? DType::f32 : tensor.dtype()).contiguous_copy();
  scope.take();  // what a conversion saw
  tensor_kernels().on(flat.device(), "observe").observe(flat.raw(), flat.dtype(), flat.numel());
  return scope.take();
}

}  // namespace binade
