#pragma once

#include <vector>

#include "binade/core/kernels/pool.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// One dimension of average pooling or upsampling, as a list of taps for each output position. A tap is a source
/// position that the output reads, with a weight. Output o has taps begin[o] to begin[o + 1] - 1 of `source` and
/// `weight`, and their sum is divided by divisor[o]. Gradients use the same kernel with the transposed list, whose
/// divisors belong to the sources.
struct TapList {
  std::vector<std::int64_t> begin, source;
  std::vector<double> weight, divisor;

  /// Reserves memory for `outputs` positions with about `taps` sources each.
  explicit TapList(std::int64_t outputs, std::int64_t taps = 1);

  /// Ends the taps of the current output position. `division`: its divisor.
  void close(double division = 1) {
    begin.push_back(static_cast<std::int64_t>(source.size()));
    divisor.push_back(division);
  }
  void add(std::int64_t from, double factor) {
    source.push_back(from);
    weight.push_back(factor);
  }
  /// Returns the transposed list: for each of `sources` positions, the outputs that read it.
  TapList transposed(std::int64_t sources) const;
};

/// Resamples x (N, H, W, C) to y (N, OH, OW, C). Each pixel of y is the sum over the taps of `rows` and `cols`, divided
/// by the divisors of both lists if `divide`.
Tensor resample(const Tensor& x, const TapList& rows, const TapList& cols, bool divide);
/// Computes the gradient gx (N, H, W, C) of resample() with the same lists.
void resample_backward(const Tensor& gy, const OpContext::Input& x, GradSink& gx, const TapList& rows,
                       const TapList& cols, bool divide);

}  // namespace binade::ops
