#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/tensor.h"

/// Measurements that telemetry takes from tensors, computed on the tensor's device without host synchronization.
namespace binade {

/// Elements of a gradient that are checked for zeros: at most 4096, in short, evenly spread runs, so that few cache
/// lines are read.
struct ZeroSample {
  static constexpr std::int64_t kRuns = 128, kRun = 32;

  explicit constexpr ZeroSample(std::int64_t n) : count(n), stride(n / kRuns > kRun ? n / kRuns : kRun) {}
  /// First element and length of a run; length 0 if it begins past the end.
  constexpr std::int64_t begin(std::int64_t run) const { return run * stride; }
  constexpr std::int64_t length(std::int64_t run) const {
    const std::int64_t left = count - begin(run);
    return left < 0 ? 0 : left < kRun ? left : kRun;
  }
  constexpr std::int64_t size() const {
    std::int64_t all = 0;
    for (std::int64_t run = 0; run < kRuns; ++run) all += length(run);
    return all;
  }

  std::int64_t count, stride;
};

/// Rows of(0) … of(size - 1) that are examined out of `rows`: evenly spread, the last row included.
struct RowSample {
  static constexpr std::int64_t kMost = 16;

  explicit constexpr RowSample(std::int64_t n, std::int64_t most = kMost) : rows(n), size(std::min(n, most)) {}
  constexpr std::int64_t of(std::int64_t i) const { return rows * (i + 1) / size - 1; }

  std::int64_t rows, size;
};

/// Which keys count in the entropy of a row of logits.
struct VisibleKeys {
  static constexpr std::int64_t kLeast = 8;  ///< with fewer visible keys, an entropy is not meaningful
  /// Returns true for the logit of a hidden key: -inf, or a constant used in its place, which is -10000 or less in
  /// practice. A NaN does not count as hidden.
  static constexpr bool masked(double logit) { return logit < -9000; }
};

/// A tensor's values (rows, cols), on a device.
struct ProbedValues {
  InputRows x{};
  std::int64_t rows = 0, cols = 0;
};

/// Measures how close floating values come to `singularity`, which f32 represents exactly, or to the ends of the legal
/// range.
struct SingularityProbe {
  ProbedValues values{};
  double singularity = 0, low = 0, high = 0;
  /// Lowered to the minimum, over all values but NaN, of |x - singularity| and high - x, and of 0 if x is outside of
  /// [low, high]. The same bits as computed on the host.
  double* nearest = nullptr;
};

/// Counts zeros of either sign in the ZeroSample of 16-bit values.
struct ZeroProbe {
  ProbedValues values{};
  double* zeros = nullptr;  ///< receives the count
};

/// Relative entropies (divided by the logarithm of the number of visible keys) of the RowSample of a softmax's rows of
/// logits; NaN for a row with fewer than VisibleKeys::kLeast visible keys or an entropy that is not finite.
struct SoftmaxProbe {
  ProbedValues logits{};
  double* entropies = nullptr;  ///< one per examined row
};

/// Like SoftmaxProbe, for the rows (b, h, t) of logits of an attention, which are computed from q and k.
struct AttentionProbe {
  AttentionArgs args{};
  double* entropies = nullptr;
  std::int64_t rows() const { return args.batch * args.heads * args.queries; }
};

}  // namespace binade
