#pragma once

#include <algorithm>
#include <cstdint>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/tensor.h"

/// Numbers that telemetry takes from tensors, found where the tensors lie: the host waits for none of them.
namespace binade {

/// Which elements of a gradient are looked at for zeros: at most 4096, in short runs, evenly spread, so that few lines
/// of memory are read.
struct ZeroSample {
  static constexpr std::int64_t kRuns = 128, kRun = 32;

  explicit constexpr ZeroSample(std::int64_t n) : count(n), stride(std::max(kRun, n / kRuns)) {}
  /// Of a run; 0 for one that begins beyond the end.
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

/// Which of `rows` rows are looked at: row of(0) … of(size - 1), evenly spread, the last one among them.
struct RowSample {
  static constexpr std::int64_t kMost = 16;

  explicit constexpr RowSample(std::int64_t n, std::int64_t most = kMost) : rows(n), size(std::min(n, most)) {}
  constexpr std::int64_t of(std::int64_t i) const { return rows * (i + 1) / size - 1; }

  std::int64_t rows, size;
};

/// What counts in the entropy of a row of logits.
struct VisibleKeys {
  static constexpr std::int64_t kLeast = 8;  ///< fewer say nothing
  /// Constants that stand for -inf begin at -10000. A NaN is no mask.
  static constexpr bool masked(double logit) { return logit < -9000; }
};

/// The values (rows, cols) of a tensor, on a device.
struct ProbedValues {
  InputRows x{};
  std::int64_t rows = 0, cols = 0;
};

/// How near floating values come to `singularity`, a number that f32 has, or to the ends of what is legal.
struct SingularityProbe {
  ProbedValues values{};
  double singularity = 0, low = 0, high = 0;
  /// Becomes the least over the values, NaN left out, and over what was there: of |x - singularity| and high - x, and 0
  /// where x is beyond low or high. The host's bits.
  double* nearest = nullptr;
};

/// Zeros of either sign in the ZeroSample of 16-bit values.
struct ZeroProbe {
  ProbedValues values{};
  double* zeros = nullptr;  ///< becomes their number
};

/// The relative entropies of the RowSample of a softmax's rows of logits: NaN for a row that has fewer than
/// VisibleKeys::kLeast of them, or one that is not finite.
struct SoftmaxProbe {
  ProbedValues logits{};
  double* entropies = nullptr;  ///< one a row that is looked at
};

/// The same of attention's rows (b, h, t).
struct AttentionProbe {
  AttentionArgs args{};
  double* entropies = nullptr;
  std::int64_t rows() const { return args.batch * args.heads * args.queries; }
};

}  // namespace binade
