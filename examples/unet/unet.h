#pragma once

#include <cstdint>
#include <span>

#include "binade.h"

namespace binade::examples {

/// Shape of a U-Net.
struct UNetOptions {
  std::int64_t in = 1, classes = 1;  ///< number of input channels; number of logits per pixel
  std::int64_t base = 32,
               depth = 4;  ///< number of channels of the first level; number of times that the image is halved
  bool recompute = false;  ///< true: activations are recomputed in backward instead of kept
};

/// Two 3x3 convolutions without bias, each followed by batch norm with ReLU: x (N, H, W, C) -> (N, H, W, K).
struct DoubleConv : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  DoubleConv(std::int64_t in, std::int64_t out);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "DoubleConv"; }
  Variable forward(const Variable& x) override { return forward(x, {}); }
  /// Writes the result to the output view `into`.
  Variable operator()(const Variable& x, const ops::OutputView& into);
  using Module::operator();

 private:
  Variable forward(const Variable& x, const ops::OutputView& into);
};

/// One decoder level: a transposed 2x2 convolution, concatenation with the skip connection, and a DoubleConv.
struct UpBlock : nn::Module {
  nn::ConvTranspose2d up;
  DoubleConv body;

  UpBlock(std::int64_t in, std::int64_t out);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "UpBlock"; }
  /// `buffer`, if not null, holds the skip connection and has space for as many channels after it, to which the
  /// upsampled `x` is written, so that the concatenation copies nothing.
  Variable operator()(const Variable& x, const Variable& skip,
                      const std::shared_ptr<ops::ConcatBuffer>& buffer = nullptr, bool recomputed = false);
};

/// The U-Net: maps images (N, H, W, in) to logits (N, H, W, classes). H and W must be multiples of 2^depth (see
/// pad_to_multiple). Source: Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015, with padded convolutions and batch norm.
/// Weights and biases are initialized as in that paper: weights are normal with standard deviation sqrt(2 / n) for n
/// inputs per output, biases are 0. In the head the mean of each class's weights is subtracted, so that the first
/// logits equal the head's biases on average for every seed (decision 0050).
class UNet : public nn::Module {
 public:
  explicit UNet(const UNetOptions& options);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "UNet"; }
  Variable forward(const Variable& images) override;
  /// Sets the head's biases, the average first logits. Throws ShapeError unless there is one per class.
  void start_at(std::span<const double> logits);
  const UNetOptions& options() const { return options_; }
  std::int64_t multiple() const { return std::int64_t{1} << options_.depth; }

 private:
  UNetOptions options_;
  nn::ModuleList<DoubleConv> encoder_;
  DoubleConv middle_;
  nn::ModuleList<UpBlock> decoder_;  ///< decoder.N has the resolution of encoder.N
  nn::Conv2d head_;
};

}  // namespace binade::examples
