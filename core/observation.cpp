#include "binade/core/observation.h"

#include <algorithm>
#include <utility>

#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/tensor.h"

namespace binade {
namespace {

thread_local Observation t_seen;
thread_local int t_scopes = 0;  // that are open
thread_local bool t_own_only = false;

}  // namespace

namespace detail {

Watched watched() { return {.at_all = t_scopes > 0, .libraries = !t_own_only}; }

void note(const Observation& seen) { t_seen.merge(seen); }
Observation exchange_observation(const Observation& next) { return std::exchange(t_seen, next); }

}  // namespace detail

void Observation::merge(const Observation& other) {
  low = std::max(low, other.low);
  wide = std::max(wide, other.wide);
  if (pending == 0) {
    pending = other.pending;
  } else if (other.pending != 0 && other.pending != pending) {
    *this = settled();
    pending = other.pending;
  }
}

Observation Observation::settled() const {
  if (pending == 0) return *this;
  const Observation there = gpus::observation(pending);
  return {.low = std::max(low, there.low), .wide = std::max(wide, there.wide)};
}

// What ran outside every scope is nobody's: it is dropped, so that no question about it makes a host wait.
ObservationScope::ObservationScope() {
  const Observation before = take();
  if (t_scopes++ > 0) outer_ = before;
}
ObservationScope::~ObservationScope() {
  --t_scopes;
  gpus::next_observation();
  detail::exchange_observation(outer_);
}
Observation ObservationScope::take() {
  Observation seen = detail::exchange_observation({});
  seen.merge({.pending = gpus::next_observation()});
  return seen;
}

OwnKernelsOnly::OwnKernelsOnly() : outer_(std::exchange(t_own_only, true)) {}
OwnKernelsOnly::~OwnKernelsOnly() { t_own_only = outer_; }

void observe_into_scope(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.numel() == 0) return;
  Tensor flat = tensor;
  if (tensor.dtype() == DType::f64 || !tensor.contiguous()) {
    const ObservationScope unseen;  // what a conversion sees
    flat = tensor.to(tensor.dtype() == DType::f64 ? DType::f32 : tensor.dtype()).contiguous_copy();
  }
  kernels(flat.device()).observe({flat.raw(), flat.dtype(), flat.numel()});
}

Observation observe(const Tensor& tensor) {
  ObservationScope scope;
  observe_into_scope(tensor);
  return scope.take().settled();
}

}  // namespace binade
