#pragma once

#include <cstdint>

#include "examples/unet/unet.h"

namespace binade::examples {

/// Logits (1, H, W, classes), f32, for one image (1, H, W, C) of any size: mirrored up to multiples of the model's,
/// run, cut back. No gradient; the caller chose eval mode and policy.
Tensor predict_logits(UNet& model, const Tensor& image);

/// Logits -> class ids, u8 (N, H, W): one logit per pixel: sigmoid > 0.5; more: the largest. NaN counts as class 0.
Tensor classes_of(const Tensor& logits);

/// Overlap of prediction and truth for one class, pooled over everything added.
class Overlap {
 public:
  explicit Overlap(std::uint8_t which = 1) : which_(which) {}
  /// Both u8, same count.
  void add(const Tensor& predicted, const Tensor& truth);
  double dice() const;  ///< 2 TP / (2 TP + FP + FN); 1 when the class is nowhere
  double iou() const;   ///< TP / (TP + FP + FN); 1 when the class is nowhere

 private:
  std::uint8_t which_;
  std::int64_t both_ = 0, predicted_ = 0, truth_ = 0;
};

}  // namespace binade::examples
