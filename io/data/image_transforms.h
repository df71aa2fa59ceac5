#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "binade/io/data/batch_order.h"
#include "binade/io/data/data_batch.h"
#include "binade/io/data/dataset.h"
#include "binade/io/data/image_folder.h"

namespace binade::io {

// Images are (H, W, C) f32 on the CPU, with values in 0 … 1 before image_normalize(). Random functions take all numbers
// from their RandomStream: pass SampleContext::random(), so that a choice depends only on seed and slot. For several
// transforms of one sample, pass SampleContext::part(k).random(), k = 0, 1, …. All throw ShapeError for another shape
// or dtype, and ArgumentError for settings out of range. A result that would equal the image may be the image itself.

/// Resizes to height x width, bilinear with half-pixel centers. To shrink an image, the filter is widened in proportion
/// (antialiasing), as in Pillow, and in torchvision with antialias=True.
Tensor resize_image(const Tensor& image, std::int64_t height, std::int64_t width);
/// Resizes so that the shorter side has `side` pixels and the ratio of the sides is kept; the longer side is rounded
/// down (torchvision's Resize with one number).
Tensor resize_shorter_side(const Tensor& image, std::int64_t side);
/// Returns the window in the middle. Throws ShapeError if the image is smaller.
Tensor center_crop(const Tensor& image, std::int64_t height, std::int64_t width);
/// Pads with zeros on all sides, and returns a window at a random place. Throws ShapeError if the padded image is
/// smaller than the window.
Tensor random_crop(const Tensor& image, std::int64_t height, std::int64_t width, std::int64_t padding,
                   const RandomStream& random);

/// Settings of random_resized_crop().
struct ResizedCropOptions {
  double min_area = 0.08, max_area = 1;             ///< share of the image's area
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;  ///< width / height, drawn uniformly in its logarithm
};
/// Returns a window of random area and aspect ratio, resized. Draws up to 10 windows; if none fits, takes the largest
/// centered window with an allowed ratio (Szegedy et al., "Going deeper with convolutions", 2015; as torchvision).
Tensor random_resized_crop(const Tensor& image, std::int64_t height, std::int64_t width, const RandomStream& random,
                           const ResizedCropOptions& options = {});
/// Exchanges left and right with the given probability.
Tensor random_flip_horizontal(const Tensor& image, const RandomStream& random, double probability = 0.5);
/// Exchanges top and bottom with the given probability.
Tensor random_flip_vertical(const Tensor& image, const RandomStream& random, double probability = 0.5);

// Adjustments clamp their results to 0 … 1, so they come before image_normalize(). Factors are finite and >= 0.

/// Multiplies by a factor.
Tensor adjust_brightness(const Tensor& image, double factor);
/// Moves each value away from, or towards, the mean brightness of the image: factor 0 gives that mean everywhere, 1 the
/// image.
Tensor adjust_contrast(const Tensor& image, double factor);
/// Moves each pixel away from, or towards, its brightness (0.299 R + 0.587 G + 0.114 B): factor 0 gives a grey image, 1
/// the image. Images that are not RGB are returned unchanged.
Tensor adjust_saturation(const Tensor& image, double factor);
/// Turns the hue (HSV) by `turn` of the full circle, from -0.5 to 0.5. Images that are not RGB are returned unchanged.
Tensor adjust_hue(const Tensor& image, double turn);

/// Settings of color_jitter(): factors are drawn from [max(0, 1 - x), 1 + x], the hue's turn from [-hue, hue].
struct ColorJitterOptions {
  double brightness = 0.4, contrast = 0.4, saturation = 0.4;
  double hue = 0.1;  ///< at most 0.5
};
/// Applies the four adjustments in a random order.
Tensor color_jitter(const Tensor& image, const RandomStream& random, const ColorJitterOptions& options = {});

/// Settings of random_erasing().
struct ErasingOptions {
  double probability = 0.5;
  double min_area = 0.02, max_area = 1.0 / 3;
  double min_ratio = 0.3, max_ratio = 1 / 0.3;
  double value = 0;  ///< value of the erased elements
};
/// With the given probability, fills a random rectangle with `value` (Zhong et al., "Random erasing data augmentation",
/// 2017). If none of 10 drawn rectangles fits, the image is returned unchanged.
Tensor random_erasing(const Tensor& image, const RandomStream& random, const ErasingOptions& options = {});

/// Returns (image - mean) / deviation for each channel. The defaults are ImageNet's statistics of RGB in 0 … 1.
Tensor image_normalize(const Tensor& image, const std::vector<double>& mean = {0.485, 0.456, 0.406},
                       const std::vector<double>& deviation = {0.229, 0.224, 0.225});

/// Applies `count` of 10 operations, drawn with repetition, with a strength of `magnitude` in 0 … 30 (after Cubuk et
/// al., "RandAugment", 2020): identity, brightness, contrast, saturation, hue, rotation, shear and translation along
/// both axes, each in a random direction. Outside of its borders, the image is mirrored.
Tensor rand_augment(const Tensor& image, const RandomStream& random, int count = 2, int magnitude = 9);

/// A batch in which each label is a distribution over the classes.
struct MixedImages {
  Tensor images{};   ///< (N, H, W, C) f32
  Tensor targets{};  ///< (N, classes) f32, each row sums to 1
};
/// Returns share * x[n] + (1 - share) * x[n - 1] for each image n of the batch (the last one for n = 0), and mixes
/// labels likewise (Zhang et al., "mixup", 2018). The share of a batch is drawn from Beta(alpha, alpha), by seed and
/// first slot. Throws DataError for a label that is not in 0 … classes - 1.
MixedImages mixup(const LabeledImage::Batch& batch, std::int64_t classes, double alpha, std::uint64_t seed,
                  const BatchOrigin& origin);
/// Replaces one random rectangle of each image n by that of image n - 1 (Yun et al., "CutMix", 2019), and mixes the
/// labels by area. Otherwise like mixup().
MixedImages cutmix(const LabeledImage::Batch& batch, std::int64_t classes, double alpha, std::uint64_t seed,
                   const BatchOrigin& origin);

}  // namespace binade::io
