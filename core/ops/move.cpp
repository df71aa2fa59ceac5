#include "binade/core/ops/move.h"

#include <algorithm>
#include <cstring>

#include "binade/core/parallel.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr std::int64_t kGrainBytes = 1 << 16;

/// memcpy, but a short run is copied in place: the call would cost more than the copy.
void copy_run(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPiece = 16, kShort = 256;
  if (bytes < kPiece || bytes > kShort) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0; at + kPiece <= bytes; at += kPiece) std::memcpy(to + at, from + at, kPiece);
  std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
}

void box(const BoxCopy& a) {
  const auto bytes = static_cast<std::size_t>(a.inner) * a.element_bytes;
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(a.from);
  auto* to = static_cast<std::byte*>(a.to);
  const auto step = static_cast<std::int64_t>(a.element_bytes);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / static_cast<std::int64_t>(bytes));
  parallel_for(a.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      copy_run(to + i * a.to_stride * step, from + i * a.from_stride * step, bytes);
  });
}

/// The innermost output dimension moved element by element, the others counted through.
template <class E>
void permute_typed(const PermuteCopy& a) {
  std::int64_t outer = 1;
  for (int d = 0; d + 1 < a.rank; ++d) outer *= a.dims[d];
  const int last = a.rank - 1;
  const std::int64_t inner = a.dims[last], stride = a.from_stride[last];
  const auto* from = static_cast<const E*>(a.from);
  auto* to = static_cast<E*>(a.to);
  const std::int64_t grain = std::max<std::int64_t>(
      1, kGrainBytes / std::max<std::int64_t>(1, inner * static_cast<std::int64_t>(sizeof(E))));
  parallel_for(outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t rest = i, at = 0;
      for (int d = last - 1; d >= 0; --d) {
        at += rest % a.dims[d] * a.from_stride[d];
        rest /= a.dims[d];
      }
      E* y = to + i * inner;
      if (stride == 1) {
        std::memcpy(static_cast<void*>(y), from + at, static_cast<std::size_t>(inner) * sizeof(E));
      } else {
        for (std::int64_t j = 0; j < inner; ++j) y[j] = from[at + j * stride];
      }
    }
  });
}

void permute(const PermuteCopy& a) {
  switch (a.element_bytes) {
    case 1: return permute_typed<std::uint8_t>(a);
    case 2: return permute_typed<std::uint16_t>(a);
    case 4: return permute_typed<std::uint32_t>(a);
    default: return permute_typed<std::uint64_t>(a);
  }
}

/// The box that `part` is inside `whole`; strides and counts in elements, memory left to the caller.
BoxCopy box_of(const Shape& whole, int axis, const Tensor& part) {
  BoxCopy a{.element_bytes = size_of(part.dtype())};
  if (axis == whole.rank() - 1) {
    a.outer = part.shape().rows();
    a.inner = part.shape().cols();
    return a;
  }
  a.outer = 1;
  for (int d = 0; d < axis; ++d) a.outer *= whole[d];
  a.inner = 1;
  for (int d = axis; d < whole.rank(); ++d) a.inner *= part.dim(d);
  return a;
}

/// Elements between positions `begin` and 0 along `axis`, and between runs.
std::int64_t inner_of(const Shape& whole, int axis) {
  std::int64_t inner = 1;
  for (int d = axis + 1; d < whole.rank(); ++d) inner *= whole[d];
  return inner;
}

}  // namespace

void copy_into(const OpInfo& info, Tensor& whole, int axis, std::int64_t begin, const Tensor& part) {
  const bool last = axis == whole.rank() - 1;
  const Tensor source = last ? part : part.contiguous_copy();
  BoxCopy a = box_of(whole.shape(), axis, source);
  const std::int64_t inner = inner_of(whole.shape(), axis);
  a.from = source.raw();
  a.from_stride = last ? source.pitch() : a.inner;
  a.to = static_cast<std::byte*>(whole.mutable_raw()) + static_cast<std::size_t>(begin * inner) * a.element_bytes;
  a.to_stride = last ? whole.pitch() : whole.dim(axis) * inner;
  move_slot().on(whole.device(), info.name).box(a);
}

void copy_out(const OpInfo& info, const Tensor& whole, int axis, std::int64_t begin, Tensor& part) {
  const bool last = axis == whole.rank() - 1;
  const Tensor source = last ? whole : whole.contiguous_copy();
  BoxCopy a = box_of(whole.shape(), axis, part);
  const std::int64_t inner = inner_of(whole.shape(), axis);
  a.from = static_cast<const std::byte*>(source.raw()) + static_cast<std::size_t>(begin * inner) * a.element_bytes;
  a.from_stride = last ? source.pitch() : whole.dim(axis) * inner;
  a.to = part.mutable_raw();
  a.to_stride = last ? part.pitch() : a.inner;
  move_slot().on(whole.device(), info.name).box(a);
}

int checked_axis(const OpInfo& info, int axis, int rank) {
  check<ArgumentError>(axis >= -rank && axis < rank, "{}: wanted an axis in [{}, {}), got {}", where(info.name), -rank,
                       rank, axis);
  return axis < 0 ? axis + rank : axis;
}

KernelSlot<MoveKernels>& move_slot() {
  static KernelSlot<MoveKernels> slot;
  return slot;
}

void register_move_cpu() { move_slot().fill(DeviceType::kCpu, {&box, &permute}); }

}  // namespace binade::ops
