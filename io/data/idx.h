#pragma once

#include <cstdint>
#include <string>

#include "binade/io/data/loader.h"

namespace binade::io {

/// Reads an IDX file (yann.lecun.com/exdb/mnist), gzipped or not: extents as stored, dtype u8, i32 (from signed
/// integers of 1, 2 and 4 bytes), f32 or f64. Throws DataError that names the file if it is missing, has another
/// format, is truncated or longer than its header says, or is a damaged gzip stream.
Tensor read_idx(const std::string& path);
/// Decodes the bytes of an IDX file; error texts begin with `name`.
Tensor decode_idx(std::string bytes, const std::string& name);

/// Grey images with one label each: MNIST, Fashion-MNIST.
struct LabeledImages {
  Tensor images{};        ///< (N, H, W) u8
  Tensor labels{};        ///< (N) u8
  std::string content{};  ///< SHA-256 of images and labels in hex

  std::int64_t size() const { return images.dim(0); }
};

/// Reads `folder`/PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, each with or without .gz; PREFIX is "train" or
/// "t10k". Throws DataError if they are missing or do not match.
LabeledImages read_labeled_images(const std::string& folder, const std::string& prefix);

/// A batch of images with their labels.
struct LabeledBatch {
  Tensor images{};  ///< (B, H, W, 1) f32 in 0 … 1
  Tensor labels{};  ///< (B) i32
  BatchOrigin origin{};

  std::int64_t size() const { return images.dim(0); }
  LabeledBatch rows(std::int64_t begin, std::int64_t count) const;
};

/// Makes a loader of batches in the order of `options`, whose members `samples` and `content` are filled in.
Loader<LabeledBatch> labeled_batches(const LabeledImages& set, LoaderOptions options);

}  // namespace binade::io
