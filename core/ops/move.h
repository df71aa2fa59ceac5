#pragma once

#include <span>

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Copies of whole elements, no arithmetic; any dtype. Where concat, slice and permute meet memory.
///
/// A box: `outer` runs of `inner` contiguous elements each, `*_stride` elements apart.
struct BoxCopy {
  std::size_t element_bytes = 4;
  std::int64_t outer = 0, inner = 0;
  const void* from = nullptr;
  std::int64_t from_stride = 0;
  void* to = nullptr;
  std::int64_t to_stride = 0;
};
/// Elements of a contiguous `from` of extents dims[0 … rank) put at strides `to_stride` (a permutation of a contiguous
/// output).
struct PermuteCopy {
  std::size_t element_bytes = 4;
  int rank = 0;
  std::int64_t dims[Shape::kMaxRank] = {};         ///< of the output
  std::int64_t from_stride[Shape::kMaxRank] = {};  ///< per output dimension
  const void* from = nullptr;
  void* to = nullptr;
};
struct MoveKernels {
  void (*box)(const BoxCopy&);
  void (*permute)(const PermuteCopy&);
};
KernelSlot<MoveKernels>& move_slot();
void register_move_cpu();

/// Elements [begin, begin + count) along `axis` of contiguous `whole` <-> `part` (the same but for that extent; a
/// channel slice where axis is not the last).
void copy_into(const OpInfo& info, Tensor& whole, int axis, std::int64_t begin, const Tensor& part);
void copy_out(const OpInfo& info, const Tensor& whole, int axis, std::int64_t begin, Tensor& part);

/// axis in [-rank, rank) -> [0, rank); throws ArgumentError.
int checked_axis(const OpInfo& info, int axis, int rank);

}  // namespace binade::ops
