#pragma once

#include <cstdint>

#include "binade/core/dtype.h"
#include "binade/core/kernels/channel_norm.h"
#include "binade/cuda/device/column_fold.cuh"

/// The passes that batch norm and group norm share, over `samples` x `rows` rows of `cols` channels. Each sample has
/// its own mean, scale, … per channel. For batch norm the whole batch is one sample; for group norm each image is one.
namespace binade::cuda {

/// The division of the work among thread blocks, into stripes of rows of one sample x tiles of channels. It depends on
/// sizes and alignment alone.
struct ColumnCut {
  bool packed = false;                                 ///< true: a thread processes 8 channels, otherwise 1
  int across = 1;                                      ///< number of threads along the channels
  int lanes = 1;                                       ///< number of rows that a block reads at a time
  std::int64_t tiles = 1, stripes = 1, rows_each = 1;  ///< tiles of channels; stripes per sample; rows per stripe
};
/// Returns the division of the work for `a`. REQUIRES that every pointer of `a` which a later pass uses is set.
ColumnCut cut_columns(const Columns& a);
/// Partial results of the two reductions, per stripe: (samples, stripes, kMomentParts or kSumParts, cols) values of the
/// computing type.
inline constexpr int kMomentParts = 3, kSumParts = 2;
/// Returns the number of values in the partial results of a reduction with `parts` values per stripe and channel.
inline std::int64_t part_values(const Columns& a, const ColumnCut& cut, int parts) {
  return a.samples * cut.stripes * parts * a.cols;
}

/// Computes for each stripe and channel: an origin (a value of the stripe), the mean minus the origin, and the sum of
/// squared deviations from the mean. Relative to the origin, the mean keeps the digits that a large offset common to
/// all values would cost.
void column_moments(const Columns& a, const ColumnCut& cut, void* parts);
/// out = act((x - mean) scale + bias + residual)
void column_apply(const Columns& a, const ColumnCut& cut);
/// parts = sum gy' and sum gy' (x - mean), where gy' is gy after the ReLU's mask.
void column_gradient_sums(const Columns& a, const ColumnCut& cut, void* parts);
/// out = scale (gy' - center) + slope (x - mean) + constant; gr = gy'
void column_gradient_apply(const Columns& a, const ColumnCut& cut);

/// The two moments or sums of one channel over all stripes.
struct ChannelTotals {
  double first = 0, second = 0;
};

/// Returns the mean of channel c, and its sum of squared deviations from the mean. All threads of a block of
/// column_fold.cuh must call it, with `parts` of one sample; a thread with c >= cols has no channel. Every thread of a
/// channel gets the same result.
///
/// Combines the stripes' means and squared deviations by sums about the first stripe's mean, in double. Cancellation
/// enlarges the relative error at most by a factor of the number of stripes, since the result includes the squared
/// distance of the first stripe's mean from the total mean.
template <class C>
__device__ ChannelTotals combine_moments(const C* parts, const ColumnCut& cut, std::int64_t rows, std::int64_t cols,
                                         std::int64_t c) {
  const auto part = [&](std::int64_t stripe, int which) {
    return static_cast<double>(parts[(stripe * kMomentParts + which) * cols + c]);
  };
  const double about = c < cols ? part(0, 0) + part(0, 1) : 0;
  double sums[2] = {};
  if (c < cols) {
#pragma unroll 4
    for (std::int64_t s = threadIdx.y; s < cut.stripes; s += kFoldRows) {
      const std::int64_t left = rows - s * cut.rows_each;
      const auto count = static_cast<double>(left < cut.rows_each ? left : cut.rows_each);
      const double difference = part(s, 0) + part(s, 1) - about;
      sums[0] += count * difference;
      sums[1] += part(s, 2) + count * difference * difference;
    }
  }
  fold(sums);
  const double off = sums[0] / static_cast<double>(rows);
  return {about + off, sums[1] - sums[0] * off};
}
/// Returns the two sums of channel c over all stripes. Call it like combine_moments().
template <class C>
__device__ ChannelTotals combine_sums(const C* parts, const ColumnCut& cut, std::int64_t cols, std::int64_t c) {
  double sums[2] = {};
  if (c < cols) {
#pragma unroll 4
    for (std::int64_t s = threadIdx.y; s < cut.stripes; s += kFoldRows) {
      sums[0] += static_cast<double>(parts[s * 2 * cols + c]);
      sums[1] += static_cast<double>(parts[(s * 2 + 1) * cols + c]);
    }
  }
  fold(sums);
  return {sums[0], sums[1]};
}

}  // namespace binade::cuda
