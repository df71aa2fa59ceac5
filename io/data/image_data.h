#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "binade/io/data/augment.h"
#include "binade/io/data/loader.h"
#include "binade/io/data/png.h"

namespace binade::io {

/// Settings for reading images.
struct ImageReadOptions {
  int classes = 1;        ///< 1: binary masks; 2 to 256: masks hold class ids 0 … classes - 1
  int channels = 0;       ///< channels of the tensors: 1 or 3; 0: as in the files (see ImageSet)
  bool normalize = true;  ///< true: zero mean and unit standard deviation per image over all channels; false: 0 … 1
};

/// An image with its mask.
struct ImageSample {
  std::string name{};     ///< file name, or index in an HDF5 file
  ImagePair pair{};       ///< image (H, W, C) f32, mask (H, W) u8 (0 and 1, or class ids)
  std::string content{};  ///< SHA-256 of image and mask in hex
};

/// Images and masks in memory. All images have the same number of channels: 3 if any is in color, otherwise 1.
struct ImageSet {
  std::vector<ImageSample> samples{};
  int channels = 1;
  int classes = 1;

  std::int64_t size() const { return static_cast<std::int64_t>(samples.size()); }
  /// Returns the SHA-256 in hex over names and contents, in order.
  std::string content() const;
  /// Returns the samples with the same content as sample i, itself included.
  std::vector<std::int64_t> same_content(std::int64_t i) const;
  /// Returns the samples [begin, begin + count).
  ImageSet part(std::int64_t begin, std::int64_t count) const;
};

/// Reads a folder (read_image_folder) or an HDF5 file (read_image_file). Throws DataError if `path` does not exist.
ImageSet read_images(const std::string& path, const ImageReadOptions& options = {});

/// Reads `folder`/images/*.png and `folder`/masks/*.png of the same names, ascending by name. Images are grey, RGB or
/// palette, 1 to 16 bits; alpha is ignored. A pixel of a binary mask is 1 if it is > 127 on the 8-bit scale, or 1 in a
/// 1-bit file; with classes > 1 the pixel value (in a palette image its index) is the class id. Throws DataError that
/// names the file for: no images, an image without a mask or the reverse, a mask of another size, a class id out of
/// range, a damaged PNG.
ImageSet read_image_folder(const std::string& folder, const ImageReadOptions& options = {});

/// Reads an HDF5 file with the datasets "images" (N, H, W) or (N, H, W, C), C = 1 or 3, u8, u16 or float, and "masks"
/// (N, H, W) or (N, H, W, 1), integers. A pixel of a binary mask is 1 if it is > 127 on the 8-bit scale; if no mask
/// value exceeds 1, the values are 0 and 1 themselves.
ImageSet read_image_file(const std::string& path, const ImageReadOptions& options = {});

/// Converts a file's pixels to (H, W, channels) f32: RGB to grey by ITU-R BT.601 weights, grey to RGB by repetition.
Tensor to_tensor(const Image& image, int channels, bool normalize);
/// Normalizes an image in place to zero mean and unit standard deviation; a constant image becomes zeros.
void normalize(Tensor& image);
/// Returns the SHA-256 in hex of the values of image and mask.
std::string content_of(const ImagePair& pair);
/// Converts a mask's pixels to (H, W) u8, see read_image_folder(). `name` is for the error text.
Tensor to_mask(const Image& image, int classes, const std::string& name);
/// Reads a mask file in the form that to_mask() requires: palette indices or colors, depending on `classes`.
Image read_mask_png(const std::string& path, int classes);

/// Images for training, and held-out images.
struct ImageSplit {
  ImageSet train{};
  ImageSet validation{};
};
/// Holds out the last held_out_count() images. Throws ArgumentError unless 0 < fraction < 1, DataError if no image is
/// left to train on.
ImageSplit split_images(const ImageSet& images, double fraction);

/// Images of one size and their masks.
struct ImageBatch {
  Tensor images{};  ///< (N, H, W, C) f32
  Tensor masks{};   ///< (N, H, W) u8: 0 or 1, or class ids
  BatchOrigin origin{};

  std::int64_t size() const { return images.dim(0); }
  ImageBatch rows(std::int64_t begin, std::int64_t count) const {
    return {images.narrow(begin, count), masks.narrow(begin, count), origin.rows(begin, count)};
  }
  ImageBatch to(Device device) const { return {images.to(device), masks.to(device), origin}; }
  /// Returns the batch without some rows; `rows` must be ascending.
  ImageBatch without(std::span<const std::int64_t> rows) const;
  /// Returns the whole batch as a state, for a repro bundle.
  StateDict state() const;
  /// Returns the batch that state() stored. Throws CheckpointError.
  static ImageBatch from_state(const StateDict& state);
};

/// Settings of training_batches().
struct ImageLoaderOptions {
  std::int64_t batch = 1;   ///< windows per batch
  std::int64_t size = 256;  ///< side of the random training window in pixels
  std::uint64_t seed = 0;
  AugmentOptions augment{};  ///< AugmentOptions::none(): random windows only
  int prefetch = 2;
};

/// Makes a loader of shuffled batches of augmented windows (see augment()). Throws ArgumentError for size < 1.
Loader<ImageBatch> training_batches(const ImageSet& images, const ImageLoaderOptions& options);
/// Makes a loader of all images in order, unchanged and in full size, one per batch (sizes may differ).
Loader<ImageBatch> evaluation_batches(const ImageSet& images, int prefetch = 2);

}  // namespace binade::io
