#pragma once

#include <cstdint>

#include "examples/common/command.h"
#include "examples/unet/unet.h"

namespace binade::examples {

/// Returns the logits (1, H, W, classes), f32, for one image (1, H, W, C) of any size, which is padded to a multiple of
/// model.multiple() by mirroring. Computes no gradients. The caller sets evaluation mode and precision policy.
Tensor predict_logits(UNet& model, const Tensor& image);

/// Converts logits to class ids, u8 (N, H, W): sigmoid > 0.5 for one logit per pixel, otherwise the largest logit. NaN
/// counts as class 0.
Tensor classes_of(const Tensor& logits);

/// Measures how much prediction and truth overlap for one class, pooled over all added masks. TP, FP and FN are the
/// numbers of true positive, false positive and false negative pixels.
class Overlap {
 public:
  explicit Overlap(std::uint8_t which = 1) : which_(which) {}
  /// Adds a mask; both tensors are u8 with the same number of elements.
  void add(const Tensor& predicted, const Tensor& truth);
  double dice() const;  ///< 2 TP / (2 TP + FP + FN); 1 if the class does not occur
  double iou() const;   ///< TP / (TP + FP + FN); 1 if the class does not occur

 private:
  std::uint8_t which_;
  std::int64_t both_ = 0, predicted_ = 0, truth_ = 0;
};

/// Declares the command `predict`, which segments images from files.
Command add_predict(CLI::App& program);

}  // namespace binade::examples
