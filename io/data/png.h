#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace binade::io {

/// Pixels of a PNG file: integers 0 … max_value(), row by row, channels innermost (H, W, C), without scaling or gamma.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int channels = 1;  ///< 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA
  int depth = 8;     ///< bits per value in the file: 1, 2, 4, 8 or 16
  std::vector<std::uint16_t> values{};

  int max_value() const { return (1 << depth) - 1; }
  std::uint16_t at(std::int64_t y, std::int64_t x, int channel) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + channel)];
  }
};

/// Options of decoding a PNG.
struct PngReadOptions {
  bool palette_as_index = false;  ///< true: a palette image is read as indices (class ids), not as colors
  std::int64_t max_pixels = std::int64_t{1} << 28;  ///< larger images are refused
};

/// Decodes a PNG of any color type and depth, interlaced or not; a palette gives 8-bit RGB. Throws DataError with
/// `name` and the reason if the PNG is damaged or incomplete. Memory is proportional to bytes.size(): a size that no
/// compressed stream of that length can fill is refused before allocation.
Image decode_png(const std::string& bytes, const std::string& name, const PngReadOptions& options = {});
/// Reads the bytes of a PNG file for decode_png(). If the file is no PNG, reads only its first bytes. Throws DataError.
std::string read_png_bytes(const std::string& path);
Image read_png(const std::string& path, const PngReadOptions& options = {});

/// Encodes an image as a PNG file without time stamps: the same image gives the same bytes. Throws ArgumentError for
/// invalid extents, channels, depth or values.
std::string encode_png(const Image& image);
/// Writes a PNG file as io/files/output_file.h does. Throws StorageError.
void write_png(const std::string& path, const Image& image);

}  // namespace binade::io
