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

  explicit constexpr ZeroSample(std::int64_t n) : count(n), stride(std::max(kRun, n / kRuns)) {}
  /// First element and length of a run; length 0 if it begins past the end.
  constexpr std::int64_t begin(std::int64_t run) const { return run * stride; }
  constexpr std::int64_t length(std::int64_t run) const {
    return std::max<std::int64_t>(0, std::min(kRun, count - begin(run)));
  }
  constexpr std::int64_t size() const {
    std::int64_t all = 0;
    for (std::int64_t run = 0; run < kRuns; ++run) all += length(run);
    return all;
  }

  std::int64_t count, stride;
};

/// Examined rows of `rows`: of(0) … of(size - 1), evenly spread, the last row included.
struct RowSample {
  static constexpr std::int64_t kMost = 16;

  explicit constexpr RowSample(std::int64_t n, std::int64_t most = kMost) : rows(n), size(std::min(n, most)) {}
  constexpr std::int64_t of(std::int64_t i) const { return rows * (i + 1) / size - 1; }

  std::int64_t rows, size;
};

/// Rules for the entropy of a row of logits.
struct VisibleKeys {
  static constexpr std::int64_t kLeast = 8;  ///< fewer keys are not meaningful
  /// Constants used instead of -inf begin at -10000. NaN is not masked.
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
  /// Lowered to the minimum, over all values but NaN, of |x - singularity| and high - x, and of 0 if x is beyond low or
  /// high. The same bits as on the host.
  double* nearest = nullptr;
};

/// Counts zeros of either sign in the ZeroSample of 16-bit values.
struct ZeroProbe {
  ProbedValues values{};
  double* zeros = nullptr;  ///< receives the count
};

/// Relative entropies of the RowSample of a softmax's rows of logits; NaN for a row with fewer than VisibleKeys::kLeast
/// visible keys or an entropy that is not finite.
struct SoftmaxProbe {
  ProbedValues logits{};
  double* entropies = nullptr;  ///< one per examined row
};

/// The same for attention's rows (b, h, t).
struct AttentionProbe {
  AttentionArgs args{};
  double* entropies = nullptr;
  std::int64_t rows() const { return args.batch * args.heads * args.queries; }
};

}  // namespace binade
