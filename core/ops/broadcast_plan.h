#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "binade/core/parallel.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// How a kernel walks up to four tensors that broadcast to one shape: as few runs as possible, each run a row of
/// `length` elements in which every operand moves by 1 or stands still. The last operand is the output.
class BroadcastPlan {
 public:
  static constexpr int kMaxOperands = 4;
  using Offsets = std::array<std::int64_t, kMaxOperands>;

  /// Throws ShapeError unless every operand broadcasts to `shape`.
  BroadcastPlan(const Shape& shape, std::initializer_list<const Tensor*> operands);

  /// 1, or 0 where operand i repeats one element along a run.
  std::int64_t step(int operand) const { return steps_[static_cast<std::size_t>(operand)]; }

  /// The walk itself, for a device that makes its own pieces: `runs` runs of `length` elements; run r starts where the
  /// digits of r in the mixed base extents[0 … outer) point, the first counting fastest.
  std::int64_t runs() const { return runs_; }
  std::int64_t length() const { return length_; }
  int outer() const { return outer_; }
  std::int64_t extent(int d) const { return extents_[static_cast<std::size_t>(d)]; }
  std::int64_t stride(int d, int operand) const {
    return strides_[static_cast<std::size_t>(d)][static_cast<std::size_t>(operand)];
  }

  /// Calls body(offsets, count) for pieces that together cover the shape, in parallel: operand i starts at element
  /// offsets[i]. Pieces depend on the shapes alone.
  template <class F>
  void for_each(F&& body) const {
    if (runs_ == 0 || length_ == 0) return;
    const std::int64_t pieces = (length_ + kGrain - 1) / kGrain;  // of one run
    const std::int64_t together = std::max<std::int64_t>(1, kGrain / length_);
    const std::int64_t groups = (runs_ + together - 1) / together;
    parallel_blocks(groups * pieces, [&](std::int64_t block) {
      const std::int64_t begin = block % pieces * kGrain;
      const std::int64_t count = std::min(kGrain, length_ - begin);
      const std::int64_t first = block / pieces * together;
      for (std::int64_t run = first; run < std::min(runs_, first + together); ++run) {
        Offsets offsets = start_of(run);
        for (std::size_t i = 0; i < kMaxOperands; ++i) offsets[i] += begin * steps_[i];
        body(offsets, count);
      }
    });
  }

 private:
  static constexpr std::int64_t kGrain = 1 << 14;
  Offsets start_of(std::int64_t run) const;

  int outer_ = 0;  // dimensions outside the run
  std::array<std::int64_t, Shape::kMaxRank> extents_{};
  std::array<Offsets, Shape::kMaxRank> strides_{};
  std::int64_t runs_ = 1;
  std::int64_t length_ = 1;
  Offsets steps_{};
};

}  // namespace binade::ops
