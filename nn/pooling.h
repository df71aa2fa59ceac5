#pragma once

#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/sampling.h"
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

/// Options of LpPool1d, LpPool2d and LpPool3d.
struct LpPool1dOptions {
  double p = 2;
  Pool1dOptions pool{};
};
struct LpPool2dOptions {
  double p = 2;
  PoolOptions pool{};
};
struct LpPool3dOptions {
  double p = 2;
  Pool3dOptions pool{};
};
/// (sum of |x|^p)^(1 / p) over windows of sequences (N, L, C), images or volumes (N, D, H, W, C): see lp_pool2d().
struct LpPool1d : OptionsModule<LpPool1dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "LpPool1d"; }
  Variable forward(const Variable& x) override { return lp_pool1d(x, options().p, options().pool); }
};
struct LpPool2d : OptionsModule<LpPool2dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "LpPool2d"; }
  Variable forward(const Variable& x) override { return lp_pool2d(x, options().p, options().pool); }
};
struct LpPool3d : OptionsModule<LpPool3dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "LpPool3d"; }
  Variable forward(const Variable& x) override { return lp_pool3d(x, options().p, options().pool); }
};

/// Options of Upsample.
struct UpsampleOptions {
  std::int64_t factor = 2;
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  ///< see InterpolateOptions
};

/// Enlarges sequences (N, L, C), images (N, H, W, C) or volumes (N, D, H, W, C) by `factor` along each axis but N and
/// C: see interpolate().
struct Upsample : OptionsModule<UpsampleOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Upsample"; }
  Variable forward(const Variable& x) override {
    const UpsampleOptions& o = options();
    return interpolate(
        x, {.scale_factor = {static_cast<double>(o.factor)}, .mode = o.mode, .align_corners = o.align_corners});
  }
};

}  // namespace binade::nn
