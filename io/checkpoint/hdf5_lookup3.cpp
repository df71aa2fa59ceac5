#include "binade/io/checkpoint/hdf5_lookup3.h"

#include <bit>
#include <cstring>

namespace binade::io {

std::uint32_t lookup3(std::span<const std::byte> bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::uint32_t a = 0xdeadbeefu + length, b = a, c = a;
  const auto add = [&](std::span<const std::byte> block) {  // up to 12 bytes, missing ones are zero
    std::uint32_t words[3] = {0, 0, 0};
    std::memcpy(words, block.data(), block.size());
    a += words[0];
    b += words[1];
    c += words[2];
  };
  const auto mix = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int by) {
    x -= y;
    x ^= std::rotl(y, by);
    y += z;
  };
  while (bytes.size() > 12) {
    add(bytes.first(12));
    bytes = bytes.subspan(12);
    mix(a, c, b, 4);
    mix(b, a, c, 6);
    mix(c, b, a, 8);
    mix(a, c, b, 16);
    mix(b, a, c, 19);
    mix(c, b, a, 4);
  }
  if (bytes.empty()) return c;
  add(bytes);
  const auto last = [](std::uint32_t& x, std::uint32_t y, int by) {
    x ^= y;
    x -= std::rotl(y, by);
  };
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

}  // namespace binade::io
