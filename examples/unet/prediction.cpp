#include "examples/unet/prediction.h"

#include <algorithm>
#include <cstring>

namespace binade::examples {
namespace {

/// Copies images of (N, H, W, C) f32 to another height and width, repeating the last row and column or dropping them.
Tensor with_size(const Tensor& images, std::int64_t height, std::int64_t width) {
  const Tensor source = images.contiguous_copy();
  const std::int64_t count = source.dim(0), h = source.dim(1), w = source.dim(2), c = source.dim(3);
  if (h == height && w == width) return source;
  check<ShapeError>(h > 0 && w > 0, "unet: wanted images with pixels, got {}", source.shape().to_string());
  Tensor result = Tensor::empty({count, height, width, c}, DType::f32);
  const float* from = source.data<float>();
  float* to = result.mutable_data<float>();
  const auto pixel = static_cast<std::size_t>(c) * sizeof(float);
  for (std::int64_t n = 0; n < count; ++n)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        std::memcpy(to + ((n * height + y) * width + x) * c, from + ((n * h + std::min(y, h - 1)) * w + std::min(x, w - 1)) * c, pixel);
  return result;
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

Tensor pad_to_multiple(const Tensor& images, std::int64_t multiple) {
  return with_size(images, round_up(images.dim(1), multiple), round_up(images.dim(2), multiple));
}

Tensor crop(const Tensor& images, std::int64_t height, std::int64_t width) { return with_size(images, height, width); }

Tensor predict_logits(UNet& model, const Tensor& images) {
  const NoGradGuard no_grad;
  const Variable logits = model(pad_to_multiple(images, model.multiple()));
  return crop(logits.value().to(DType::f32), images.dim(1), images.dim(2));
}

Tensor classes_of(const Tensor& logits) {
  const Shape& shape = logits.shape();
  Tensor ids = Tensor::empty({shape.dim(0), shape.dim(1), shape.dim(2)}, DType::u8);
  const std::int64_t classes = shape.cols();
  const float* z = logits.data<float>();
  std::uint8_t* id = ids.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i, z += classes)
    id[i] = classes == 1 ? static_cast<std::uint8_t>(*z > 0) : static_cast<std::uint8_t>(std::max_element(z, z + classes) - z);
  return ids;
}

void Overlap::add(const Tensor& predicted, const Tensor& truth) {
  check<ShapeError>(predicted.numel() == truth.numel(), "overlap: {} predicted pixels for {} true ones", predicted.numel(), truth.numel());
  const std::uint8_t* p = predicted.data<std::uint8_t>();
  const std::uint8_t* t = truth.data<std::uint8_t>();
  for (std::int64_t i = 0; i < predicted.numel(); ++i) {
    predicted_ += p[i] == which_;
    truth_ += t[i] == which_;
    both_ += p[i] == which_ && t[i] == which_;
  }
}

double Overlap::dice() const {
  return predicted_ + truth_ == 0 ? 1.0 : 2.0 * static_cast<double>(both_) / static_cast<double>(predicted_ + truth_);
}

double Overlap::iou() const {
  const std::int64_t either = predicted_ + truth_ - both_;
  return either == 0 ? 1.0 : static_cast<double>(both_) / static_cast<double>(either);
}

}  // namespace binade::examples
