#pragma once

#include <cstdint>
#include <vector>

#include "binade/core/random.h"
#include "binade/core/tensor.h"

namespace binade::io {

/// An image (H, W, C) f32 and its mask (H, W) u8, on the CPU. Every function here transforms both alike, with bilinear
/// interpolation for the image and the nearest pixel for the mask, which holds class ids. Outside its borders the image
/// is mirrored (without repeating the border pixel), as in Ronneberger et al. 2015. The mask may be undefined.
struct ImagePair {
  Tensor image{};
  Tensor mask{};
};

/// Exchanges left and right.
ImagePair flip_horizontal(const ImagePair& pair);
/// Exchanges top and bottom.
ImagePair flip_vertical(const ImagePair& pair);
/// Rotates counter-clockwise by 90 degrees x `turns` (any integer), without interpolation.
ImagePair rotate90(const ImagePair& pair, int turns);
/// Returns the `height` x `width` window whose top left pixel is (y, x); it may extend over the border.
ImagePair crop(const ImagePair& pair, std::int64_t y, std::int64_t x, std::int64_t height, std::int64_t width);

/// The source row and column of each pixel of a result, in fractions of pixels.
struct CoordinateMap {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<float> y{}, x{};  ///< rows and columns; height * width numbers each

  /// Makes the map of a crop, in which pixel (i, j) of the result comes from (y + i, x + j).
  static CoordinateMap window(double y, double x, std::int64_t height, std::int64_t width);
  /// Rotates the result counter-clockwise by `radians` about its center.
  void rotate(double radians);
  /// Adds a displacement in pixels to every source coordinate; dy and dx have height * width elements.
  void displace(const std::vector<float>& dy, const std::vector<float>& dx);
};

/// Returns the pair whose pixels are read from `pair` at the coordinates of `map`.
ImagePair sample(const ImagePair& pair, const CoordinateMap& map);

/// Returns one coordinate of an elastic distortion (Simard, Steinkraus, Platt, "Best practices for convolutional neural
/// networks applied to visual document analysis", ICDAR 2003): a displacement drawn uniformly from (-1, 1) for every
/// pixel, smoothed by a Gaussian of standard deviation `sigma` (cut off at 4 sigma, zero outside the field), times
/// `alpha` pixels. Element i is drawn as stream.uniform(i).
std::vector<float> elastic_field(const RandomStream& stream, std::int64_t height, std::int64_t width, double alpha,
                                 double sigma);

/// Random changes of augment().
struct AugmentOptions {
  bool flip = true;           ///< left-right and up-down, each with probability 1/2
  bool rotate90 = true;       ///< rotates by 0, 90, 180 or 270 degrees, at random
  double rotate_degrees = 0;  ///< also rotates by an angle drawn from (-rotate_degrees, rotate_degrees)
  /// Largest displacement in pixels before smoothing (elastic_field()); 0: no elastic distortion. With 200 and a sigma
  /// of 10, pixels are displaced by about 3 pixels.
  double elastic_alpha = 0;
  double elastic_sigma = 10;  ///< standard deviation of the smoothing, in pixels

  static AugmentOptions none() { return {.flip = false, .rotate90 = false}; }
};

/// Returns an augmented window of size x size at a random position, mirrored if the image is smaller. If `size` is 0,
/// the window is the whole image (an image that is not square is rotated by 0 or 180 degrees only). The result depends
/// on the arguments only: `stream` gives the random numbers (purpose kAugment, step = slot of the loader), so that a
/// replayed or resumed step uses the same pixels.
ImagePair augment(const ImagePair& pair, std::int64_t size, const AugmentOptions& options, RandomStream stream);

/// Pads an image to multiples of `multiple` in both directions by mirroring at the bottom and right borders.
Tensor pad_to_multiple(const Tensor& image, std::int64_t multiple);

}  // namespace binade::io
