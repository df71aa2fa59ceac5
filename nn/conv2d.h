#pragma once

#include "binade/core/ops/extent2.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct Conv2dOptions {
  std::int64_t in = 0, out = 0;
  Extent2 kernel = 3;
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Convolution of images (N, H, W, in) with weight (out, R, S, in / groups) and bias (out): see ops::Conv2d.
/// Initialized as PyTorch's: U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), fan_in = R S in / groups.
class Conv2d : public Module {
 public:
  explicit Conv2d(const Conv2dOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "Conv2d"; }
  Variable forward(const Variable& x) override;
  const Conv2dOptions& options() const { return options_; }

  Parameter weight, bias;

 private:
  Conv2dOptions options_;
};

}  // namespace binade::nn
