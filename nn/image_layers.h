#pragma once

#include "binade/autograd/functions/images.h"
#include "binade/autograd/functions/norm.h"
#include "binade/core/error.h"
#include "binade/nn/module.h"

/// Layers of images (N, H, W, C), sequences (N, L, C) and volumes (N, D, H, W, C). The formulas are in
/// autograd/functions/images.h.
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

/// Options of AdaptiveAvgPool1d and AdaptiveMaxPool1d.
struct AdaptivePool1dOptions {
  std::int64_t size = 1;  ///< length of the result; 0: that of the input
};
/// Averages or takes the maximum over windows of sequences: (N, L, C) -> (N, size, C).
struct AdaptiveAvgPool1d : OptionsModule<AdaptivePool1dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AdaptiveAvgPool1d"; }
  Variable forward(const Variable& x) override { return adaptive_avg_pool1d(x, options().size); }
};
struct AdaptiveMaxPool1d : OptionsModule<AdaptivePool1dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AdaptiveMaxPool1d"; }
  Variable forward(const Variable& x) override { return adaptive_max_pool1d(x, options().size); }
};

/// Options of AdaptiveAvgPool3d and AdaptiveMaxPool3d.
struct AdaptivePool3dOptions {
  Extent3 size = 1;  ///< extents of the result; 0: those of the input
};
/// Averages or takes the maximum over windows of volumes: (N, D, H, W, C) -> (N, size.z, size.y, size.x, C).
struct AdaptiveAvgPool3d : OptionsModule<AdaptivePool3dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AdaptiveAvgPool3d"; }
  Variable forward(const Variable& x) override { return adaptive_avg_pool3d(x, options().size); }
};
struct AdaptiveMaxPool3d : OptionsModule<AdaptivePool3dOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "AdaptiveMaxPool3d"; }
  Variable forward(const Variable& x) override { return adaptive_max_pool3d(x, options().size); }
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

/// Options of ChannelShuffle.
struct ChannelShuffleOptions {
  std::int64_t groups = 2;
};
/// Mixes the channels of different groups: see channel_shuffle().
struct ChannelShuffle : OptionsModule<ChannelShuffleOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "ChannelShuffle"; }
  Variable forward(const Variable& x) override { return channel_shuffle(x, options().groups); }
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

/// Options of InstanceNorm1d, InstanceNorm2d and InstanceNorm3d.
struct InstanceNormOptions {
  std::int64_t channels = 0;
  double eps = 1e-5;
  bool affine = false;  ///< true: with weight (initially 1) and bias (0)
};
/// Normalizes each channel of each sample by its own mean and variance: group norm with as many groups as channels, in
/// training and evaluation alike. Throws ShapeError in training for samples of one position, whose results would be 0.
class InstanceNorm : public WeightedModule {
 public:
  std::string kind() const override { return kind_; }
  Variable forward(const Variable& x) override {
    check<ShapeError>(x.value().rank() == rank_ && x.dim(-1) == options_.channels,
                      "{}: wanted x {} with {} channels, got {}", where(kind()), layout_, options_.channels, x.shape());
    check<ShapeError>(!training() || x.value().numel() == 0 || x.shape().rows() != x.dim(0),
                      "{}: wanted more than one position per sample in training, got {}", where(kind()), x.shape());
    return group_norm(x, options_.channels, weight, bias, {.eps = options_.eps});
  }
  const InstanceNormOptions& options() const { return options_; }

 protected:
  InstanceNorm(const char* kind, const char* layout, int rank, const InstanceNormOptions& o)
      : kind_(kind), layout_(layout), rank_(rank), options_(o) {
    check<ArgumentError>(o.channels > 0 && o.eps >= 0, "{}: wanted channels > 0 and eps >= 0, got {} and {}", kind,
                         o.channels, o.eps);
    if (!o.affine) return;
    weight = Parameter(Tensor::full({o.channels}, 1, DType::f32, Runtime::current_device()));
    bias = Parameter(Tensor::zeros({o.channels}, DType::f32, Runtime::current_device()));
  }

 private:
  const char *kind_, *layout_;
  int rank_;
  InstanceNormOptions options_;
};
struct InstanceNorm1d : InstanceNorm {
  explicit InstanceNorm1d(const InstanceNormOptions& o) : InstanceNorm("InstanceNorm1d", "(N, L, C)", 3, o) {}
};
struct InstanceNorm2d : InstanceNorm {
  explicit InstanceNorm2d(const InstanceNormOptions& o) : InstanceNorm("InstanceNorm2d", "(N, H, W, C)", 4, o) {}
};
struct InstanceNorm3d : InstanceNorm {
  explicit InstanceNorm3d(const InstanceNormOptions& o) : InstanceNorm("InstanceNorm3d", "(N, D, H, W, C)", 5, o) {}
};

}  // namespace binade::nn
