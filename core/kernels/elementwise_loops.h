#pragma once

#include <cstdint>

#include "binade/core/ops/formulas.h"

namespace binade::cpu {

/// Serial loops of one unary op over n contiguous elements.
template <class Op>
struct UnaryLoops {
  void (*forward)(In x, Out y, std::int64_t n, const typename Op::Params& p);
  void (*backward)(In saved, In gy, Out gx, std::int64_t n, const typename Op::Params& p);
};

/// An operand whose element i is at i * step. The step is 1, or 0 if one element is repeated.
struct Stepped {
  In x;
  std::int64_t step = 1;
};

/// Serial loops of one binary op over n elements. `which`: the input whose gradient is computed, 0 or 1.
template <class Op>
struct BinaryLoops {
  void (*forward)(Stepped a, Stepped b, Out y, std::int64_t n, const typename Op::Params& p);
  void (*backward)(int which, Stepped a, Stepped b, In gy, Out g, std::int64_t n, const typename Op::Params& p);
};

/// Contains a Loops<Op> for every op of a list. An OpTable converts to the Loops of each op.
template <template <class> class Loops, class List>
struct OpTable;
template <template <class> class Loops, class... Ops>
struct OpTable<Loops, ops::OpList<Ops...>> : Loops<Ops>... {};

/// Elementwise loops of one instruction-set level.
struct ElementwiseKernels {
  OpTable<UnaryLoops, ops::UnaryOps> unary;
  OpTable<BinaryLoops, ops::BinaryOps> binary;
  /// y = condition ? a : b, with one byte per condition.
  void (*where)(Stepped condition, Stepped a, Stepped b, Out y, std::int64_t n);
  /// y = x in another dtype, rounded once.
  void (*convert)(In x, Out y, std::int64_t n);
  /// to += from over n values of f32, f16 or bf16, added in float and rounded once.
  void (*accumulate)(In from, Out to, std::int64_t n);
  /// Observes n values of f32, f16 or bf16 as if a kernel had stored them (core/observation.h).
  void (*observe)(In x, std::int64_t n);
};

}  // namespace binade::cpu
