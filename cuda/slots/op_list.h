#pragma once

#include <cstring>
#include <type_traits>

#include "binade/core/ops/lists.h"
#include "binade/cuda/calls/elementwise.h"

/// How an op of a list (core/ops/lists.h) and its options are put into a call.
namespace binade::cuda {

/// Where an op stands in its list: the number by which the module knows it.
template <class Op, class... Ops>
constexpr int position_in(ops::OpList<Ops...>) {
  int position = 0;
  (void)((std::is_same_v<Op, Ops> || (++position, false)) || ...);
  return position;
}

template <class Params>
void put_params(unsigned char (&bytes)[kMaxParamBytes], const Params& p) {
  static_assert(sizeof p <= kMaxParamBytes && std::is_trivially_copyable_v<Params>);
  std::memcpy(bytes, &p, sizeof p);
}

}  // namespace binade::cuda
