#pragma once

#include "binade/autograd/functions/pool.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Maximum over windows of images (N, H, W, C), constructed like MaxPool2d({.kernel = 2}). See ops::MaxPool2d.
class MaxPool2d : public StatelessModule {
 public:
  explicit MaxPool2d(const PoolOptions& options = {}) : options_(options) {}
  std::string kind() const override { return "MaxPool2d"; }
  Variable forward(const Variable& x) override { return max_pool2d(x, options_); }

 private:
  PoolOptions options_;
};

/// Average over windows of images (N, H, W, C). See ops::AvgPool2d.
class AvgPool2d : public StatelessModule {
 public:
  explicit AvgPool2d(const PoolOptions& options = {}) : options_(options) {}
  std::string kind() const override { return "AvgPool2d"; }
  Variable forward(const Variable& x) override { return avg_pool2d(x, options_); }

 private:
  PoolOptions options_;
};

struct UpsampleOptions {
  std::int64_t factor = 2;
  UpsampleMode mode = UpsampleMode::kNearest;
};

/// Enlarges images by `factor` in height and width.
class Upsample : public StatelessModule {
 public:
  explicit Upsample(const UpsampleOptions& options = {}) : options_(options) {}
  std::string kind() const override { return "Upsample"; }
  Variable forward(const Variable& x) override { return upsample(x, options_.factor, options_.mode); }

 private:
  UpsampleOptions options_;
};

}  // namespace binade::nn
