#pragma once

#include <cstdint>
#include <string>

namespace binade::io {

/// Builds a PNG file from the specification (ISO/IEC 15948), with stored (uncompressed) deflate blocks, so that the
/// test input does not depend on libpng.
struct PngBytes {
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  int depth = 8;
  int color = 0;  ///< 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA
  int interlace = 0;
  std::string rows{};          ///< the rows, each after its filter byte
  std::string palette{};       ///< RGB triples
  std::string transparency{};  ///< content of tRNS

  static std::string big_endian(std::uint32_t value) {
    std::string bytes(4, '\0');
    for (int i = 0; i < 4; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(value >> (24 - 8 * i));
    return bytes;
  }

  static std::string chunk(const std::string& type, const std::string& data) {
    std::uint32_t crc = 0xFFFFFFFFu;
    for (const char c : type + data) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return big_endian(static_cast<std::uint32_t>(data.size())) + type + data + big_endian(~crc);
  }

  static std::string zlib_stored(const std::string& data) {
    std::string out = "\x78\x01";
    std::size_t at = 0;
    do {
      const std::size_t count = std::min<std::size_t>(65535, data.size() - at);
      out += at + count == data.size() ? '\1' : '\0';
      const auto length = static_cast<std::uint16_t>(count);
      const auto inverse = static_cast<std::uint16_t>(~length);
      for (const std::uint16_t word : {length, inverse}) {
        out += static_cast<char>(word & 0xFF);
        out += static_cast<char>(word >> 8);
      }
      out += data.substr(at, count);
      at += count;
    } while (at < data.size());
    std::uint32_t a = 1;
    std::uint32_t b = 0;
    for (const char c : data) {
      a = (a + static_cast<unsigned char>(c)) % 65521;
      b = (b + a) % 65521;
    }
    return out + big_endian((b << 16) | a);
  }

  std::string file() const {
    std::string header = big_endian(width) + big_endian(height);
    for (const int value : {depth, color, 0, 0, interlace}) header += static_cast<char>(value);
    std::string bytes = "\x89PNG\r\n\x1a\n" + chunk("IHDR", header);
    if (!palette.empty()) bytes += chunk("PLTE", palette);
    if (!transparency.empty()) bytes += chunk("tRNS", transparency);
    return bytes + chunk("IDAT", zlib_stored(rows)) + chunk("IEND", "");
  }
};

}  // namespace binade::io
