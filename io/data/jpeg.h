#pragma once

#include <string>

#include "binade/core/tensor.h"
#include "binade/io/data/png.h"

namespace binade::io {

/// True if this build can decode JPEG, which needs libjpeg-turbo (docs/data.md).
bool can_decode_jpeg();

/// Decodes a JPEG to 8-bit grey or RGB; CMYK becomes RGB. The orientation in its EXIF data is not applied (nor is it by
/// torchvision's ImageFolder). Throws DataError with `name` and the reason if it is damaged, truncated, larger than
/// `max_pixels` or has more than 500 scans, and ArgumentError if this build cannot decode JPEG.
Image decode_jpeg(const std::string& bytes, const std::string& name, std::int64_t max_pixels = std::int64_t{1} << 28);

/// Reads a PNG or JPEG file, recognized by its first bytes. Throws DataError with the path.
Image read_image(const std::string& path);

/// Returns the pixels as (H, W, C) f32 in 0 … 1: each value divided by the largest value of its bit depth. C is
/// `channels`, 1 or 3; with 0, it is 1 for a grey image and 3 for a colored one. Grey becomes RGB by repetition, RGB
/// becomes grey by ITU-R BT.601. Alpha is dropped, not blended.
Tensor to_pixels(const Image& image, int channels = 0);

}  // namespace binade::io
