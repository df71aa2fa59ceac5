#pragma once

#include "binade/autograd/functions/images.h"
#include "binade/autograd/functions/norm.h"
#include "binade/core/error.h"
#include "binade/nn/module.h"

/// Layers of images (N, H, W, C). The formulas are in autograd/functions/images.h.
namespace binade::nn {

/// Options of AdaptiveAvgPool2d and AdaptiveMaxPool2d.
struct AdaptivePoolOptions {
  Extent2 size = 1;  ///< height and width of the result; 0: that of the input
};
/// Averages or takes the maximum over windows so that the result has a given size: (N, H, W, C) -> (N, size.y, size.x,
/// C). Size 1 is global pooling.
struct AdaptiveAvgPool2d : OptionsModule<AdaptivePoolOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AdaptiveAvgPool2d"; }
  Variable forward(const Variable& x) override { return adaptive_avg_pool2d(x, options().size); }
};
struct AdaptiveMaxPool2d : OptionsModule<AdaptivePoolOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AdaptiveMaxPool2d"; }
  Variable forward(const Variable& x) override { return adaptive_max_pool2d(x, options().size); }
};

/// Options of PixelShuffle and PixelUnshuffle.
struct PixelShuffleOptions {
  std::int64_t factor = 2;
};
/// Moves channels to positions: (N, H, W, C factor^2) -> (N, H factor, W factor, C).
struct PixelShuffle : OptionsModule<PixelShuffleOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "PixelShuffle"; }
  Variable forward(const Variable& x) override { return pixel_shuffle(x, options().factor); }
};
/// The inverse of PixelShuffle.
struct PixelUnshuffle : OptionsModule<PixelShuffleOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "PixelUnshuffle"; }
  Variable forward(const Variable& x) override { return pixel_unshuffle(x, options().factor); }
};

/// Options of LocalResponseNorm.
struct LocalResponseNormOptions {
  std::int64_t size = 5;  ///< number of neighboring channels
  double alpha = 1e-4, beta = 0.75, k = 1;
};
/// Divides each element by a power of the mean square of its neighboring channels: see local_response_norm().
struct LocalResponseNorm : OptionsModule<LocalResponseNormOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "LocalResponseNorm"; }
  Variable forward(const Variable& x) override {
    return local_response_norm(x, options().size, options().alpha, options().beta, options().k);
  }
};

/// Options of InstanceNorm2d.
struct InstanceNormOptions {
  std::int64_t channels = 0;
  double eps = 1e-5;
  bool affine = false;  ///< true: with weight (initially 1) and bias (0)
};
/// Normalizes each channel of each image by its own mean and variance: group norm with as many groups as channels, in
/// training and evaluation alike. Throws ShapeError in training for images of one pixel, whose results would be 0.
class InstanceNorm2d : public WeightedModule {
 public:
  explicit InstanceNorm2d(const InstanceNormOptions& o) : options_(o) {
    check<ArgumentError>(o.channels > 0 && o.eps >= 0,
                         "InstanceNorm2d: wanted channels > 0 and eps >= 0, got {} and {}", o.channels, o.eps);
    if (!o.affine) return;
    weight = Parameter(Tensor::full({o.channels}, 1, DType::f32, Runtime::current_device()));
    bias = Parameter(Tensor::zeros({o.channels}, DType::f32, Runtime::current_device()));
  }
  std::string kind() const override { return "InstanceNorm2d"; }
  Variable forward(const Variable& x) override {
    check<ShapeError>(x.value().rank() == 4 && x.dim(3) == options_.channels, "{}: wanted images (N, H, W, {}), got {}",
                      where(kind()), options_.channels, x.shape());
    check<ShapeError>(!training() || x.dim(1) != 1 || x.dim(2) != 1,
                      "{}: wanted more than one pixel per image in training, got {}", where(kind()), x.shape());
    return group_norm(x, options_.channels, weight, bias, {.eps = options_.eps});
  }
  const InstanceNormOptions& options() const { return options_; }

 private:
  InstanceNormOptions options_;
};

}  // namespace binade::nn
