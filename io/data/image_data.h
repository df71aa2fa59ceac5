#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "binade/io/data/augment.h"
#include "binade/io/data/loader.h"
#include "binade/io/data/png.h"

namespace binade::io {

struct ImageReadOptions {
  int classes = 1;        ///< 1: binary masks; more: masks hold class ids 0 … classes - 1; at most 256
  int channels = 0;       ///< 1 or 3; 0: as the files are (see ImageSet)
  bool normalize = true;  ///< zero mean and unit standard deviation per image, all channels together; else 0 … 1
};

struct ImageSample {
  std::string name{};     ///< file name, or index in an HDF5 file
  ImagePair pair{};       ///< image (H, W, C) f32, mask (H, W) u8 (0 and 1, or class ids)
  std::string content{};  ///< SHA-256 in hex of both
};

/// Images and masks in memory. All images have the same number of channels: 3 as soon as one is in color, else 1.
struct ImageSet {
  std::vector<ImageSample> samples{};
  int channels = 1;
  int classes = 1;

  std::int64_t size() const { return static_cast<std::int64_t>(samples.size()); }
  /// SHA-256 in hex over names and contents, in order.
  std::string content() const;
  /// Samples with the same content as sample i, itself included: what a quarantine leaves out.
  std::vector<std::int64_t> same_content(std::int64_t i) const;
  ImageSet part(std::int64_t begin, std::int64_t count) const;
};

/// A folder (read_image_folder) or an HDF5 file (read_image_file). Throws DataError when there is neither.
ImageSet read_images(const std::string& path, const ImageReadOptions& options = {});

/// Reads `folder`/images/*.png with `folder`/masks/*.png of the same names, ascending by name. Grey, RGB, palette, 1 to
/// 16 bits; alpha is left out. Masks: in a binary task a pixel is 1 when it is > 127 on the 8-bit scale, or 1 in a
/// 1-bit file; with classes > 1 the pixel value (in a palette image its index) is the class id. Throws DataError naming
/// the file: no images, an image without a mask or the reverse, a mask of another size, a class id out of range, a
/// damaged PNG.
ImageSet read_image_folder(const std::string& folder, const ImageReadOptions& options = {});

/// Reads an HDF5 file with the datasets "images" (N, H, W) or (N, H, W, C), C = 1 or 3, u8, u16 or float, and "masks"
/// (N, H, W) or (N, H, W, 1), integers; 8-bit binary masks follow the rule above unless none exceeds 1: then 1 is 1.
ImageSet read_image_file(const std::string& path, const ImageReadOptions& options = {});

/// (H, W, channels) f32 from a file's pixels: RGB to grey by ITU-R BT.601 weights, grey to RGB by repetition.
Tensor to_tensor(const Image& image, int channels, bool normalize);
/// Zero mean and unit standard deviation in place; a constant image becomes zeros.
void normalize(Tensor& image);
/// (H, W) u8 from a mask's pixels, see read_image_folder(). `name` is for the error.
Tensor to_mask(const Image& image, int classes, const std::string& name);
/// How a mask file must be read for to_mask().
Image read_mask_png(const std::string& path, int classes);

struct ImageSplit {
  ImageSet train{};
  ImageSet validation{};
};
/// Holds out the last floor(fraction * size) images, at least 1. Throws ArgumentError and DataError as split_text().
ImageSplit split_images(const ImageSet& images, double fraction);

/// Images of one size and their masks.
struct ImageBatch {
  Tensor images{};  ///< (N, H, W, C) f32
  Tensor masks{};   ///< (N, H, W) u8: 0 or 1, or class ids
  BatchOrigin origin{};

  std::int64_t size() const { return images.dim(0); }
  ImageBatch rows(std::int64_t begin, std::int64_t count) const;
  ImageBatch to(Device device) const;
  ImageBatch without(std::span<const std::int64_t> rows) const;  ///< `rows` ascending
  /// Everything in it, and back: for a capsule. Throws CheckpointError.
  StateDict state() const;
  static ImageBatch from_state(const StateDict& state);
};

struct ImageLoaderOptions {
  std::int64_t batch = 1;
  std::int64_t size = 256;  ///< side of the random training window
  std::uint64_t seed = 0;
  AugmentOptions augment{};  ///< AugmentOptions::none() leaves only the random window
  int prefetch = 2;
};

/// Shuffled batches of augmented windows (see augment()). Throws ArgumentError for size < 1.
Loader<ImageBatch> training_batches(const ImageSet& images, const ImageLoaderOptions& options);
/// Every image once, whole and unchanged, in order, one per batch (their sizes may differ).
Loader<ImageBatch> evaluation_batches(const ImageSet& images, int prefetch = 2);

}  // namespace binade::io
