#pragma once

#include <cstdint>
#include <span>

#include "binade.h"

namespace binade::examples {

struct UNetOptions {
  std::int64_t in = 1, classes = 1;   ///< input channels; logits per pixel
  std::int64_t base = 32, depth = 4;  ///< channels of the first level; how often the image is halved
  bool recompute = false;             ///< convolutions and norms run twice instead of keeping their activations
};

/// (convolution 3x3 without bias, batch norm with its ReLU) twice. x (N, H, W, C) -> (N, H, W, K)
struct DoubleConv : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  DoubleConv(std::int64_t in, std::int64_t out);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "DoubleConv"; }
  Variable forward(const Variable& x) override { return forward(x, {}); }
  /// The same, laid `into`.
  Variable operator()(const Variable& x, const ops::OutputView& into);
  using Module::operator();

 private:
  Variable forward(const Variable& x, const ops::OutputView& into);
};

/// One step up: transposed convolution 2x2, the skip beside it, DoubleConv.
struct UpBlock : nn::Module {
  nn::ConvTranspose2d up;
  DoubleConv body;

  UpBlock(std::int64_t in, std::int64_t out);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "UpBlock"; }
  /// `buffer`, where there is one, holds the skip and has as many channels left behind it.
  Variable operator()(const Variable& x, const Variable& skip,
                      const std::shared_ptr<ops::ConcatBuffer>& buffer = nullptr, bool recomputed = false);
};

/// Images (N, H, W, in) -> logits (N, H, W, classes); H and W multiples of 2^depth (see pad_to_multiple). Source:
/// Ronneberger, Fischer, Brox, "U-Net", MICCAI 2015, with padded convolutions and batch norm. Initialized as there:
/// every convolution normal with std sqrt(2 / values an output pixel sees), biases 0; and each class's mean is
/// subtracted from its weights of the head, so that the first logits equal its biases on average, whatever the seed
/// (decision 0050).
class UNet : public nn::Module {
 public:
  explicit UNet(const UNetOptions& options);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "UNet"; }
  Variable forward(const Variable& images) override;
  /// Sets the head's biases, which are the average first logits. Throws ShapeError unless there is one per class.
  void start_at(std::span<const double> logits);
  const UNetOptions& options() const { return options_; }
  std::int64_t multiple() const { return std::int64_t{1} << options_.depth; }

 private:
  UNetOptions options_;
  nn::ModuleList<DoubleConv> encoder_;
  DoubleConv middle_;
  nn::ModuleList<UpBlock> decoder_;  ///< decoder.N works at the resolution of encoder.N
  nn::Conv2d head_;
};

}  // namespace binade::examples
