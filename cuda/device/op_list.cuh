#pragma once

#include <cstring>

#include "binade/core/ops/lists.h"
#include "binade/cuda/calls/elementwise.h"

/// How a call names an op of a list (core/ops/lists.h): by its position, with its options bit by bit.
namespace binade::cuda {

/// Calls run(OpTag<Op>{}) for the op that stands at `position`.
template <class... Ops, class F>
void with_op(ops::OpList<Ops...>, int position, F&& run) {
  int at = 0;
  (void)((at++ == position && (run(ops::OpTag<Ops>{}), true)) || ...);
}

template <class Op>
typename Op::Params params_of(const unsigned char (&bytes)[kMaxParamBytes]) {
  typename Op::Params p;
  std::memcpy(&p, bytes, sizeof p);
  return p;
}

}  // namespace binade::cuda
