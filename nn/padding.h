#pragma once

#include <cstdint>
#include <vector>

#include "binade/autograd/functions/rearrange.h"
#include "binade/core/error.h"
#include "binade/nn/module.h"

/// Layers that add positions around sequences (N, L, C), images (N, H, W, C) and volumes (N, D, H, W, C). They call
/// pad(). N and C are not padded.
namespace binade::nn {

/// Options of the padding layers.
struct PaddingOptions {
  /// One number for all sides, or two for each axis in PyTorch's order: left, right, top, bottom for images; for
  /// volumes also front and back. Negative numbers remove positions.
  std::vector<std::int64_t> padding{1};
};
/// Options of ConstantPad1d, ConstantPad2d and ConstantPad3d.
struct ConstantPaddingOptions {
  std::vector<std::int64_t> padding{1};  ///< as in PaddingOptions
  double value = 0;
};

/// Base of the padding layers.
class Padding : public StatelessModule {
 public:
  std::string kind() const override { return kind_; }
  Variable forward(const Variable& x) override {
    check<ShapeError>(x.value().rank() == axes_ + 2, "{}: wanted x {}, got {}", where(kind()),
                      axes_ == 1   ? "(N, L, C)"
                      : axes_ == 2 ? "(N, H, W, C)"
                                   : "(N, D, H, W, C)",
                      x.shape());
    return pad(x, padding_, mode_, value_);
  }
  /// The padding in the form that pad() expects, which begins with 0, 0 for the channels.
  const std::vector<std::int64_t>& padding() const { return padding_; }

 protected:
  Padding(const char* kind, int axes, PadMode mode, const std::vector<std::int64_t>& padding, double value = 0)
      : kind_(kind), axes_(axes), mode_(mode), padding_{0, 0}, value_(value) {
    const auto sides = static_cast<std::size_t>(2 * axes);
    check<ArgumentError>(padding.size() == 1 || padding.size() == sides, "{}: wanted 1 or {} numbers, got {}", kind,
                         sides, padding.size());
    for (std::size_t i = 0; i < sides; ++i) padding_.push_back(padding[padding.size() == 1 ? 0 : i]);
  }

 private:
  const char* kind_;
  int axes_;
  PadMode mode_;
  std::vector<std::int64_t> padding_;
  double value_;
};

/// Adds positions with a constant value.
struct ConstantPad1d : Padding {
  explicit ConstantPad1d(const ConstantPaddingOptions& o = {})
      : Padding("ConstantPad1d", 1, PadMode::kConstant, o.padding, o.value) {}
};
struct ConstantPad2d : Padding {
  explicit ConstantPad2d(const ConstantPaddingOptions& o = {})
      : Padding("ConstantPad2d", 2, PadMode::kConstant, o.padding, o.value) {}
};
struct ConstantPad3d : Padding {
  explicit ConstantPad3d(const ConstantPaddingOptions& o = {})
      : Padding("ConstantPad3d", 3, PadMode::kConstant, o.padding, o.value) {}
};
/// Adds positions with the value 0.
struct ZeroPad1d : Padding {
  explicit ZeroPad1d(const PaddingOptions& o = {}) : Padding("ZeroPad1d", 1, PadMode::kConstant, o.padding) {}
};
struct ZeroPad2d : Padding {
  explicit ZeroPad2d(const PaddingOptions& o = {}) : Padding("ZeroPad2d", 2, PadMode::kConstant, o.padding) {}
};
struct ZeroPad3d : Padding {
  explicit ZeroPad3d(const PaddingOptions& o = {}) : Padding("ZeroPad3d", 3, PadMode::kConstant, o.padding) {}
};
/// Mirrors the positions at the outermost one, which is not repeated. The padding must be smaller than the extent.
struct ReflectionPad1d : Padding {
  explicit ReflectionPad1d(const PaddingOptions& o = {})
      : Padding("ReflectionPad1d", 1, PadMode::kReflect, o.padding) {}
};
struct ReflectionPad2d : Padding {
  explicit ReflectionPad2d(const PaddingOptions& o = {})
      : Padding("ReflectionPad2d", 2, PadMode::kReflect, o.padding) {}
};
struct ReflectionPad3d : Padding {
  explicit ReflectionPad3d(const PaddingOptions& o = {})
      : Padding("ReflectionPad3d", 3, PadMode::kReflect, o.padding) {}
};
/// Repeats the outermost position.
struct ReplicationPad1d : Padding {
  explicit ReplicationPad1d(const PaddingOptions& o = {})
      : Padding("ReplicationPad1d", 1, PadMode::kReplicate, o.padding) {}
};
struct ReplicationPad2d : Padding {
  explicit ReplicationPad2d(const PaddingOptions& o = {})
      : Padding("ReplicationPad2d", 2, PadMode::kReplicate, o.padding) {}
};
struct ReplicationPad3d : Padding {
  explicit ReplicationPad3d(const PaddingOptions& o = {})
      : Padding("ReplicationPad3d", 3, PadMode::kReplicate, o.padding) {}
};
/// Continues with the positions at the opposite end.
struct CircularPad1d : Padding {
  explicit CircularPad1d(const PaddingOptions& o = {}) : Padding("CircularPad1d", 1, PadMode::kCircular, o.padding) {}
};
struct CircularPad2d : Padding {
  explicit CircularPad2d(const PaddingOptions& o = {}) : Padding("CircularPad2d", 2, PadMode::kCircular, o.padding) {}
};
struct CircularPad3d : Padding {
  explicit CircularPad3d(const PaddingOptions& o = {}) : Padding("CircularPad3d", 3, PadMode::kCircular, o.padding) {}
};

}  // namespace binade::nn
