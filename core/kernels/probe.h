#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/tensor.h"

/// Measurements that telemetry takes from tensors, computed on the tensor's device without host synchronization.
namespace binade {

/// The elements of a gradient that are checked for zeros. There are at most 4096, in short runs that are evenly spread,
/// so that few cache lines are read.
struct ZeroSample {
  static constexpr std::int64_t kRuns = 128, kRun = 32;  ///< number of runs; elements of a run

  explicit constexpr ZeroSample(std::int64_t n) : count(n), stride(n / kRuns > kRun ? n / kRuns : kRun) {}
  /// Returns the index of the first element of a run.
  constexpr std::int64_t begin(std::int64_t run) const { return run * stride; }
  /// Returns the length of a run; 0 if the run begins beyond the end.
  constexpr std::int64_t length(std::int64_t run) const {
    const std::int64_t left = count - begin(run);
    return left < 0 ? 0 : left < kRun ? left : kRun;
  }
  /// Returns the number of elements in all runs.
  constexpr std::int64_t size() const {
    std::int64_t all = 0;
    for (std::int64_t run = 0; run < kRuns; ++run) all += length(run);
    return all;
  }

  std::int64_t count, stride;
};

/// The rows of(0) … of(size - 1) that are examined, out of `rows` rows. They are evenly spread and include the last
/// row.
struct RowSample {
  static constexpr std::int64_t kMost = 16;  ///< largest number of rows by default

  explicit constexpr RowSample(std::int64_t n, std::int64_t most = kMost) : rows(n), size(std::min(n, most)) {}
  constexpr std::int64_t of(std::int64_t i) const { return rows * (i + 1) / size - 1; }

  std::int64_t rows, size;
};

/// Decides which keys count in the entropy of a row of logits.
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
  /// Is lowered to the smallest |x - singularity| or high - x over all values x except NaN, or to 0 if a value is
  /// outside of [low, high]. The result has the same bits as on the host.
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
