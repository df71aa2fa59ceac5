#pragma once

#include "binade/core/ops/extent2.h"
#include "binade/core/ops/output_view.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct ConvTranspose2dOptions {
  std::int64_t in = 0, out = 0;
  Extent2 kernel = 2;
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 output_padding = 0;
  Extent2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Transposed convolution of images (N, H, W, in) with weight (in, R, S, out / groups) and bias (out): see
/// ops::ConvTranspose2d. Initialized as PyTorch's: U(-b, b), b = 1 / sqrt(R S out / groups).
class ConvTranspose2d : public Module {
 public:
  explicit ConvTranspose2d(const ConvTranspose2dOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "ConvTranspose2d"; }
  Variable forward(const Variable& x) override { return forward(x, {}); }
  /// The same, laid `into`.
  Variable operator()(const Variable& x, const ops::OutputView& into);
  using Module::operator();
  const ConvTranspose2dOptions& options() const { return options_; }

  Parameter weight, bias;

 private:
  Variable forward(const Variable& x, const ops::OutputView& into);

  ConvTranspose2dOptions options_;
};

}  // namespace binade::nn
