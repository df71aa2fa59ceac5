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

/// Maximum and average over windows of sequences (N, L, C): see max_pool1d().
struct MaxPool1d : OptionsModule<Pool1dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "MaxPool1d"; }
  Variable forward(const Variable& x) override { return max_pool1d(x, options()); }
};
struct AvgPool1d : OptionsModule<Pool1dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AvgPool1d"; }
  Variable forward(const Variable& x) override { return avg_pool1d(x, options()); }
};

/// Maximum and average over windows of volumes (N, D, H, W, C): see max_pool3d().
struct MaxPool3d : OptionsModule<Pool3dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "MaxPool3d"; }
  Variable forward(const Variable& x) override { return max_pool3d(x, options()); }
};
struct AvgPool3d : OptionsModule<Pool3dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AvgPool3d"; }
  Variable forward(const Variable& x) override { return avg_pool3d(x, options()); }
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
