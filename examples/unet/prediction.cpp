#include "examples/unet/prediction.h"

#include <algorithm>

#include "binade/core/runtime.h"
#include "binade/io/data/augment.h"

namespace binade::examples {

Tensor predict_logits(UNet& model, const Tensor& image) {
  check<ShapeError>(image.rank() == 4 && image.dim(0) == 1, "predict: wanted one image (1, H, W, C), got {}",
                    image.shape().to_string());
  const InferenceMode inference;
  const std::int64_t height = image.dim(1), width = image.dim(2), channels = image.dim(3);
  const Tensor padded = io::pad_to_multiple(image.on_host().reshape({height, width, channels}), model.multiple());
  const Variable logits = model(
      padded.reshape({1, padded.dim(0), padded.dim(1), channels}).to(Runtime::current_device()));
  const Tensor whole = logits.value().to(DType::f32).on_host();
  const Tensor part = io::crop({whole.reshape({whole.dim(1), whole.dim(2), whole.dim(3)})}, 0, 0, height, width).image;
  return part.reshape({1, height, width, whole.dim(3)});
}

Tensor classes_of(const Tensor& logits) {
  const Shape& shape = logits.shape();
  Tensor ids = Tensor::empty({shape.dim(0), shape.dim(1), shape.dim(2)}, DType::u8);
  const std::int64_t classes = shape.cols();
  const float* z = logits.data<float>();
  std::uint8_t* id = ids.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i, z += classes)
    id[i] = classes == 1 ? static_cast<std::uint8_t>(*z > 0)
                         : static_cast<std::uint8_t>(std::max_element(z, z + classes) - z);
  return ids;
}

void Overlap::add(const Tensor& predicted, const Tensor& truth) {
  check<ShapeError>(predicted.numel() == truth.numel(), "overlap: {} predicted pixels for {} true ones",
                    predicted.numel(), truth.numel());
  const Tensor truth_here = truth.on_host();
  const std::uint8_t* p = predicted.data<std::uint8_t>();
  const std::uint8_t* t = truth_here.data<std::uint8_t>();
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
