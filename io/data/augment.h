#pragma once

#include <cstdint>
#include <vector>

#include "binade/core/random.h"
#include "binade/core/tensor.h"

namespace binade::io {

/// An image (H, W, C) f32 and its mask (H, W) u8, on the CPU. Every function here moves both alike: the image
/// bilinear, the mask by its nearest pixel (it holds class ids, which have no mean). Outside the image its mirror image
/// is seen (the border pixel not repeated), as in Ronneberger et al. 2015. The mask may be undefined.
struct ImagePair {
  Tensor image{};
  Tensor mask{};
};

ImagePair flip_horizontal(const ImagePair& pair);
ImagePair flip_vertical(const ImagePair& pair);
/// Counter-clockwise by 90 degrees x `turns` (any integer). Exact: no pixel changes its value.
ImagePair rotate90(const ImagePair& pair, int turns);
/// The `height` x `width` window whose top left pixel is (y, x); it may reach over the border.
ImagePair crop(const ImagePair& pair, std::int64_t y, std::int64_t x, std::int64_t height, std::int64_t width);

/// Where each pixel of a result comes from: source row and column, as fractions of pixels.
struct CoordinateMap {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<float> y{}, x{};  ///< height * width each

  /// Pixel (i, j) comes from (y + i, x + j): a crop.
  static CoordinateMap window(double y, double x, std::int64_t height, std::int64_t width);
  /// Turns the result counter-clockwise by `radians` about its center.
  void rotate(double radians);
  /// Adds a displacement in pixels to every source coordinate; fields of height * width.
  void displace(const std::vector<float>& dy, const std::vector<float>& dx);
};

/// The pair seen through a map.
ImagePair sample(const ImagePair& pair, const CoordinateMap& map);

/// Elastic distortion (Simard, Steinkraus, Platt, "Best practices for convolutional neural networks applied to visual
/// document analysis", ICDAR 2003): a displacement drawn uniformly from (-1, 1) for every pixel, smoothed by a Gaussian
/// of standard deviation `sigma` (cut off at 4 sigma, zero outside the field), times `alpha` pixels. Element i is drawn
/// as stream.uniform(i).
std::vector<float> elastic_field(const RandomStream& stream, std::int64_t height, std::int64_t width, double alpha,
                                 double sigma);

struct AugmentOptions {
  bool flip = true;           ///< left-right and up-down, each half of the time
  bool rotate90 = true;       ///< by 0, 90, 180 or 270 degrees
  double rotate_degrees = 0;  ///< and by an angle drawn from (-d, d)
  /// Pixels before smoothing, see elastic_field(); 0: none. 200 with sigma 10 moves about 3 pixels
  double elastic_alpha = 0;
  double elastic_sigma = 10;

  static AugmentOptions none() { return {.flip = false, .rotate90 = false}; }
};

/// One augmented window of size x size at a random place, mirrored where the image is smaller; size 0 takes the whole
/// image (which is turned by 0 or 180 degrees alone when it is not square). A function of its arguments alone: `stream`
/// names the draw (purpose kAugment, step = slot of the loader), so a replayed or resumed step sees the same pixels.
ImagePair augment(const ImagePair& pair, std::int64_t size, const AugmentOptions& options, RandomStream stream);

/// Grows an image to multiples of `multiple` in both directions, mirrored at the bottom and the right border.
Tensor pad_to_multiple(const Tensor& image, std::int64_t multiple);

}  // namespace binade::io
