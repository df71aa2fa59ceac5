#include "binade/core/observation.h"

#include <algorithm>
#include <utility>

#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/tensor.h"

namespace binade {
namespace {

thread_local Observation t_observed;
thread_local int t_open_scopes = 0;
thread_local bool t_own_only = false;

}  // namespace

namespace detail {

Watched watched() { return {.at_all = t_open_scopes > 0, .libraries = !t_own_only}; }

void note(const Observation& seen) { t_observed.merge(seen); }
Observation exchange_observation(const Observation& next) { return std::exchange(t_observed, next); }

}  // namespace detail

void Observation::merge(const Observation& other) {
  low = std::max(low, other.low);
  wide = std::max(wide, other.wide);
  if (pending == 0) {
    pending = other.pending;
  } else if (other.pending != 0 && other.pending != pending) {
    *this = synchronized();
    pending = other.pending;
  }
}

Observation Observation::synchronized() const {
  if (pending == 0) return *this;
  const Observation on_gpu = gpus::observation(pending);
  return {.low = std::max(low, on_gpu.low), .wide = std::max(wide, on_gpu.wide)};
}

// take() removes the observations that were made before this scope. If this scope is inside another one, they belong to
// that scope; otherwise they are dropped, so that the host never waits for them.
ObservationScope::ObservationScope() {
  const Observation before = take();
  if (t_open_scopes++ > 0) outer_ = before;
}
ObservationScope::~ObservationScope() {
  --t_open_scopes;
  gpus::next_observation();
  detail::exchange_observation(outer_);
}
Observation ObservationScope::take() {
  Observation seen = detail::exchange_observation({});
  seen.merge({.pending = gpus::next_observation()});
  return seen;
}

OwnKernelsOnly::OwnKernelsOnly() : ScopedValue(t_own_only, true) {}

void observe_into_scope(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.numel() == 0) return;
  Tensor flat = tensor;
  if (tensor.dtype() == DType::f64 || !tensor.contiguous()) {
    const ObservationScope ignored;  // discards the observations of the conversion itself
    flat = tensor.to(tensor.dtype() == DType::f64 ? DType::f32 : tensor.dtype()).contiguous_copy();
  }
  kernels(flat.device()).observe({flat.raw(), flat.dtype(), flat.numel()});
}

Observation observe(const Tensor& tensor) {
  ObservationScope scope;
  observe_into_scope(tensor);
  return scope.take().synchronized();
}

}  // namespace binade
