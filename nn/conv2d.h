#pragma once

#include "binade/autograd/functions/conv.h"
#include "binade/nn/convolution.h"

namespace binade::nn {

/// Options of Conv2d.
struct Conv2dOptions {
  std::int64_t in = 0, out = 0;  ///< number of input and output channels
  Extent2 kernel = 3;
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Convolution of images (N, H, W, in) with weight (out, R, S, in / groups) and bias (out): see ops::Conv2d.
/// Initialized as in PyTorch: U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), fan_in = R S in / groups.
class Conv2d : public Convolution {
 public:
  explicit Conv2d(const Conv2dOptions& o)
      : Convolution("Conv2d", o, o.out, o.in, {o.kernel.y, o.kernel.x}), options_(o) {}
  std::string kind() const override { return "Conv2d"; }
  Variable forward(const Variable& x) override { return with_weight(x, weight); }
  /// Computes forward(x) with another weight (out, R, S, in / groups), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other) {
    return conv2d(x, other, bias,
                  {.stride = options_.stride,
                   .padding = options_.padding,
                   .dilation = options_.dilation,
                   .groups = options_.groups});
  }
  const Conv2dOptions& options() const { return options_; }

 private:
  Conv2dOptions options_;
};

}  // namespace binade::nn
