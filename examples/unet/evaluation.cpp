#include "examples/unet/evaluation.h"

#include <algorithm>
#include <cmath>

#include "binade/io/terminal/signals.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {

MaskScore evaluate(UNet& model, const io::ImageSet& images, const std::string& loss, const EachPrediction& each) {
  const InferenceMode inference;
  const bool was_training = model.training();
  model.eval();
  auto batches = io::evaluation_batches(images, 1);
  Overlap foreground(1), background(0);
  MaskScore score;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    if (io::StopSignals::stop_requested()) throw amp::EvaluationStopped();
    const io::ImageBatch batch = batches.next();
    const Tensor logits = predict_logits(model, batch.images);
    const Tensor ids = classes_of(logits);
    score.loss += segmentation_loss(loss, logits.to(batch.masks.device()), batch.masks).item() /
                  static_cast<double>(images.size());
    foreground.add(ids, batch.masks);
    background.add(ids, batch.masks);
    if (each) each(images.samples[static_cast<std::size_t>(i)], ids.reshape({ids.dim(1), ids.dim(2)}));
  }
  model.train(was_training);
  score.dice = foreground.dice();
  score.iou = foreground.iou();
  score.background_dice = background.dice();
  return score;
}

namespace {

constexpr std::int64_t kBar = 4;
constexpr int kWhite = 255;

/// A white picture with panels of one size side by side.
class Strip {
 public:
  Strip(std::int64_t panels, std::int64_t height, std::int64_t width, int channels) : panel_width_(width) {
    picture_ = {.width = panels * width + (panels - 1) * kBar,
                .height = height,
                .channels = channels,
                .depth = 8,
                .values = {}};
    picture_.values.assign(static_cast<std::size_t>(picture_.width * height * channels), kWhite);
  }

  /// Fills panel number `panel` with value(pixel, channel), 0 … 255.
  template <class F>
  void paint(std::int64_t panel, F&& value) {
    for (std::int64_t y = 0; y < picture_.height; ++y)
      for (std::int64_t x = 0; x < panel_width_; ++x)
        for (int c = 0; c < picture_.channels; ++c) {
          const std::int64_t at = (y * picture_.width + panel * (panel_width_ + kBar) + x) * picture_.channels + c;
          picture_.values[static_cast<std::size_t>(at)] = static_cast<std::uint16_t>(value(y * panel_width_ + x, c));
        }
  }

  io::Image take() { return std::move(picture_); }

 private:
  io::Image picture_;
  std::int64_t panel_width_;
};

}  // namespace

io::Image picture_of(const io::ImageSample& sample, const Tensor& predicted, int classes) {
  const Shape& shape = sample.pair.image.shape();
  const std::vector<float> pixels = sample.pair.image.to_vector<float>();
  const auto [low, high] = std::ranges::minmax(pixels);
  const float range = high > low ? high - low : 1.0f;
  const int channels = static_cast<int>(shape[2]);
  Strip strip(3, shape[0], shape[1], channels);
  strip.paint(0, [&](std::int64_t pixel, int c) {
    return std::lround(kWhite * (pixels[static_cast<std::size_t>(pixel * channels + c)] - low) / range);
  });
  const int step = kWhite / std::max(1, classes - 1);
  for (const auto& [panel, mask] : {std::pair{1, sample.pair.mask}, std::pair{2, predicted}})
    strip.paint(panel, [step, ids = mask.to_vector<std::uint8_t>()](std::int64_t pixel, int) {
      return step * ids[static_cast<std::size_t>(pixel)];
    });
  return strip.take();
}

}  // namespace binade::examples
