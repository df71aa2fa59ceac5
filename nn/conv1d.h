#pragma once

#include "binade/autograd/functions/conv.h"
#include "binade/nn/convolution.h"

/// Convolutions of sequences (N, L, channels). Initialized as in PyTorch: U(-1 / sqrt(n), 1 / sqrt(n)), where n is the
/// product of all extents of the weight but the first.
namespace binade::nn {

/// Options of Conv1d.
struct Conv1dOptions {
  std::int64_t in = 0, out = 0;  ///< number of input and output channels
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Convolution with weight (out, R, in / groups) and bias (out): see conv1d().
class Conv1d : public Convolution {
 public:
  explicit Conv1d(const Conv1dOptions& o) : Convolution("Conv1d", o, o.out, o.in, {o.kernel}), options_(o) {}
  std::string kind() const override { return "Conv1d"; }
  Variable forward(const Variable& x) override { return with_weight(x, weight); }
  /// Computes forward(x) with another weight (out, R, in / groups), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other) {
    return conv1d(x, other, bias,
                  {.stride = options_.stride,
                   .padding = options_.padding,
                   .dilation = options_.dilation,
                   .groups = options_.groups});
  }
  const Conv1dOptions& options() const { return options_; }

 private:
  Conv1dOptions options_;
};

/// Options of ConvTranspose1d.
struct ConvTranspose1dOptions {
  std::int64_t in = 0, out = 0;  ///< number of input and output channels
  std::int64_t kernel = 2;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Transposed convolution with weight (in, R, out / groups) and bias (out): see conv_transpose1d().
class ConvTranspose1d : public Convolution {
 public:
  explicit ConvTranspose1d(const ConvTranspose1dOptions& o)
      : Convolution("ConvTranspose1d", o, o.in, o.out, {o.kernel}), options_(o) {}
  std::string kind() const override { return "ConvTranspose1d"; }
  Variable forward(const Variable& x) override { return with_weight(x, weight); }
  /// Computes forward(x) with another weight (in, R, out / groups), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other) {
    return conv_transpose1d(x, other, bias,
                            {.stride = options_.stride,
                             .padding = options_.padding,
                             .output_padding = options_.output_padding,
                             .dilation = options_.dilation,
                             .groups = options_.groups});
  }
  const ConvTranspose1dOptions& options() const { return options_; }

 private:
  ConvTranspose1dOptions options_;
};

}  // namespace binade::nn
