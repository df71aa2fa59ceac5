#pragma once

#include "binade/autograd/functions/pool.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Computes the maximum over each window of images (N, H, W, C), for example with MaxPool2d({.kernel = 2}). See
/// ops::MaxPool2d.
struct MaxPool2d : OptionsModule<PoolOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "MaxPool2d"; }
  Variable forward(const Variable& x) override { return max_pool2d(x, options()); }
};

/// Computes the average over each window of images (N, H, W, C). See ops::AvgPool2d.
struct AvgPool2d : OptionsModule<PoolOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AvgPool2d"; }
  Variable forward(const Variable& x) override { return avg_pool2d(x, options()); }
};

/// Options of Upsample.
struct UpsampleOptions {
  std::int64_t factor = 2;
  UpsampleMode mode = UpsampleMode::kNearest;
};

/// Enlarges images by `factor` in height and width.
struct Upsample : OptionsModule<UpsampleOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Upsample"; }
  Variable forward(const Variable& x) override { return upsample(x, options().factor, options().mode); }
};

}  // namespace binade::nn
