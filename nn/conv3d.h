#pragma once

#include "binade/autograd/functions/conv.h"
#include "binade/nn/convolution.h"

/// Convolutions of volumes (N, D, H, W, channels). Initialized as in PyTorch: U(-1 / sqrt(n), 1 / sqrt(n)), where n is
/// the product of all extents of the weight but the first.
namespace binade::nn {

/// Options of Conv3d.
struct Conv3dOptions {
  std::int64_t in = 0, out = 0;  ///< number of input and output channels
  Extent3 kernel = 3;
  Extent3 stride = 1;
  Extent3 padding = 0;
  Extent3 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Convolution with weight (out, T, R, S, in / groups) and bias (out): see conv3d().
class Conv3d : public Convolution {
 public:
  explicit Conv3d(const Conv3dOptions& o)
      : Convolution("Conv3d", o, o.out, o.in, {o.kernel.z, o.kernel.y, o.kernel.x}), options_(o) {}
  std::string kind() const override { return "Conv3d"; }
  Variable forward(const Variable& x) override { return with_weight(x, weight); }
  /// Computes forward(x) with another weight (out, T, R, S, in / groups), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other) {
    return conv3d(x, other, bias,
                  {.stride = options_.stride,
                   .padding = options_.padding,
                   .dilation = options_.dilation,
                   .groups = options_.groups});
  }
  const Conv3dOptions& options() const { return options_; }

 private:
  Conv3dOptions options_;
};

/// Options of ConvTranspose3d.
struct ConvTranspose3dOptions {
  std::int64_t in = 0, out = 0;  ///< number of input and output channels
  Extent3 kernel = 2;
  Extent3 stride = 1;
  Extent3 padding = 0;
  Extent3 output_padding = 0;
  Extent3 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Transposed convolution with weight (in, T, R, S, out / groups) and bias (out): see conv_transpose3d().
class ConvTranspose3d : public Convolution {
 public:
  explicit ConvTranspose3d(const ConvTranspose3dOptions& o)
      : Convolution("ConvTranspose3d", o, o.in, o.out, {o.kernel.z, o.kernel.y, o.kernel.x}), options_(o) {}
  std::string kind() const override { return "ConvTranspose3d"; }
  Variable forward(const Variable& x) override { return with_weight(x, weight); }
  /// Computes forward(x) with another weight (in, T, R, S, out / groups), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other) {
    return conv_transpose3d(x, other, bias,
                            {.stride = options_.stride,
                             .padding = options_.padding,
                             .output_padding = options_.output_padding,
                             .dilation = options_.dilation,
                             .groups = options_.groups});
  }
  const ConvTranspose3dOptions& options() const { return options_; }

 private:
  ConvTranspose3dOptions options_;
};

}  // namespace binade::nn
