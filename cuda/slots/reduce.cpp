#include "binade/core/ops/reduce.h"

#include "binade/cuda/register.h"
#include "binade/cuda/run.h"
#include "binade/cuda/slots/walk.h"

namespace binade::cuda {
namespace {

/// The groups of x that a reduction to y's shape sees. In a channel slice the last dimension is a group of its own,
/// the pitch lying between it and the others.
ReduceCall call_of(const Tensor& x, Tensor& y) {
  ReduceCall call{.x = source(x), .y = target(y), .pitch = x.contiguous() ? 0 : x.pitch()};
  const bool slice = call.pitch != 0;
  for (int d = 0; d < x.rank(); ++d) {
    const bool last = slice && d == x.rank() - 1;
    if (x.dim(d) == 1 && !last) continue;
    const bool reduced = y.dim(d) == 1 && x.dim(d) != 1;
    if (call.groups > 0 && call.reduced[call.groups - 1] == reduced && !last) {
      call.extents[call.groups - 1] *= x.dim(d);
    } else {
      call.extents[call.groups] = x.dim(d);
      call.reduced[call.groups++] = reduced;
    }
  }
  return call;
}

void reduce(const Tensor& any, Tensor& y, double divisor, bool largest, const char* op) {
  Tensor x = any;
  ReduceCall call = call_of(x, y);
  const int g = call.groups;
  if (!x.contiguous() && g > 2 && !call.reduced[g - 1] && !call.reduced[g - 2]) {
    x = any.contiguous_copy();  // the kept part of a row is not in one piece
    call = call_of(x, y);
  }
  call.largest = largest;
  call.divisor = divisor;
  run(Call::kReduce, call, op);
}

void sum(const Tensor& x, Tensor& y, double divisor) { reduce(x, y, divisor, false, divisor == 1 ? "sum" : "mean"); }
void max(const Tensor& x, Tensor& y) { reduce(x, y, 1, true, ops::Max::info.name); }

void max_gradient(const Tensor& x, const Tensor& y, const Tensor& g, Tensor& gx) {
  const MaxGradientCall call{.walk = walk_of(ops::BroadcastPlan(gx.shape(), {&x, &y, &g, &gx}), 4),
                             .in = {source(x), source(y), source(g)},
                             .out = target(gx)};
  run(Call::kMaxGradient, call, ops::Max::info.name);
}

}  // namespace

void register_reduce() { ops::reduce_kernels.fill(DeviceType::kCuda, {&sum, &max, &max_gradient}); }

}  // namespace binade::cuda
