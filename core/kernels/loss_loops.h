#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise_loops.h"

namespace binade::cpu {

/// Loops of one loss over n elements. The computing type is double if x is f64, otherwise float.
template <class Op>
struct LossLoops {
  /// *sum = the sum of value(x, t).
  void (*sum)(In x, In t, std::int64_t n, const typename Op::Params& p, void* sum);
  /// g = scale times the derivative of value(x, t) by x (which == 0) or by t (which == 1).
  void (*gradient)(int which, In x, In t, double scale, Out g, std::int64_t n, const typename Op::Params& p);
  /// y = value(x, t), and g = gy times the derivative, element by element.
  void (*values)(In x, In t, Out y, std::int64_t n, const typename Op::Params& p);
  void (*gradients)(int which, In x, In t, In gy, Out g, std::int64_t n, const typename Op::Params& p);
};

/// Loops of all losses, of one kernel level.
struct LossKernels {
  OpTable<LossLoops, ops::ElementLosses> element;
  /// sums[0 … 2] = the sums of x t, of x and of t.
  void (*dice)(In x, In t, std::int64_t n, void* sums);
  /// g = offset - factor * other.
  void (*affine)(In other, double offset, double factor, Out g, std::int64_t n, bool is_double);
  /// three[0 … 2] = statistics of one row of logits: the maximum, the sum of exp(x - maximum) and, if `distances`, the
  /// sum of x - maximum (otherwise 0).
  void (*row_statistics)(In x, std::int64_t n, bool distances, void* three);
  /// Gradient of one row of logits: gx = scale (exp(x - statistics[0]) / statistics[1] - share - [i == target]
  /// at_target). gx may be x if both have one dtype.
  void (*row_gradient)(In x, std::int64_t n, const void* statistics, double scale, double share, double at_target,
                       std::int64_t target, Out gx);
};

}  // namespace binade::cpu
