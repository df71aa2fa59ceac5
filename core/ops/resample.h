#pragma once

#include <vector>

#include "binade/core/kernels/pool.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// What one dimension of average pooling and of upsampling does: for each output position, the sources it reads and
/// their weights. Gradients run the same kernel with the taps turned round.
struct TapList {
  std::vector<std::int64_t> begin, source;
  std::vector<double> weight, divisor;

  /// Of `outputs` positions with about `taps` each.
  explicit TapList(std::int64_t outputs, std::int64_t taps = 1);

  /// Closes the list of one output position after its taps were added.
  void close(double division = 1) {
    begin.push_back(static_cast<std::int64_t>(source.size()));
    divisor.push_back(division);
  }
  void add(std::int64_t from, double factor) {
    source.push_back(from);
    weight.push_back(factor);
  }
  /// For each of `sources` positions, the outputs that read it.
  TapList turned(std::int64_t sources) const;
};

/// y (N, OH, OW, C) of x (N, H, W, C); the result is divided by both divisors where `divide`.
Tensor resample(const Tensor& x, const TapList& rows, const TapList& cols, bool divide);
/// The gradient of the above: gx (N, H, W, C) into the sink.
void resample_backward(const Tensor& gy, const OpContext::Input& x, GradSink& gx, const TapList& rows,
                       const TapList& cols, bool divide);

}  // namespace binade::ops
