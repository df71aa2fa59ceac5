#pragma once

#include "binade/autograd/functions/conv.h"
#include "binade/nn/convolution.h"

namespace binade::nn {

/// Options of ConvTranspose2d.
struct ConvTranspose2dOptions {
  std::int64_t in = 0, out = 0;  ///< number of input and output channels
  Extent2 kernel = 2;
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 output_padding = 0;
  Extent2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Transposed convolution of images (N, H, W, in) with weight (in, R, S, out / groups) and bias (out): see
/// ops::ConvTranspose2d. Initialized as in PyTorch: U(-b, b), b = 1 / sqrt(R S out / groups).
class ConvTranspose2d : public Convolution {
 public:
  explicit ConvTranspose2d(const ConvTranspose2dOptions& o)
      : Convolution("ConvTranspose2d", o, o.in, o.out, {o.kernel.y, o.kernel.x}), options_(o) {}
  std::string kind() const override { return "ConvTranspose2d"; }
  Variable forward(const Variable& x) override { return forward(x, weight, {}); }
  /// Computes forward(x) with another weight (in, R, S, out / groups), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other) { return forward(x, other, {}); }
  /// Like forward(x), with the result stored in a part of a larger tensor that `into` describes.
  Variable operator()(const Variable& x, const ops::OutputView& into) {
    const ModuleScope scope(*this);
    return forward(x, weight, into);
  }
  using Module::operator();
  const ConvTranspose2dOptions& options() const { return options_; }

 private:
  Variable forward(const Variable& x, const Variable& other, const ops::OutputView& into) {
    return conv_transpose2d(x, other, bias,
                            {.stride = options_.stride,
                             .padding = options_.padding,
                             .output_padding = options_.output_padding,
                             .dilation = options_.dilation,
                             .groups = options_.groups,
                             .into = into});
  }

  ConvTranspose2dOptions options_;
};

}  // namespace binade::nn
