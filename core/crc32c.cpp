#include "binade/core/crc32c.h"

#include <array>
#include <cstring>

namespace binade {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82F63B78u;

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the contribution of a byte with value b to the CRC, if k more bytes of its eight-byte group follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? kReversedPolynomial : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xffu];
    }
  return tables;
}
constexpr Tables kTables = make_tables();

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                                      std::uint32_t previous) {
  std::uint64_t crc = ~previous;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto crc32 = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) crc32 = __builtin_ia32_crc32qi(crc32, static_cast<std::uint8_t>(*at));
  return ~crc32;
}
#endif

}  // namespace

std::uint32_t detail::crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t previous) {
  std::uint32_t crc = ~previous;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  const auto byte_at = [&](std::size_t i) { return static_cast<std::uint32_t>(at[i]); };
  for (; left >= 8; at += 8, left -= 8) {
    const std::uint32_t low = crc ^ (byte_at(0) | byte_at(1) << 8 | byte_at(2) << 16 | byte_at(3) << 24);
    crc = kTables[7][low & 0xffu] ^ kTables[6][(low >> 8) & 0xffu] ^ kTables[5][(low >> 16) & 0xffu] ^
          kTables[4][low >> 24] ^ kTables[3][byte_at(4)] ^ kTables[2][byte_at(5)] ^ kTables[1][byte_at(6)] ^
          kTables[0][byte_at(7)];
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ byte_at(0)) & 0xffu];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_by_instruction(bytes, previous);
#endif
  return detail::crc32c_by_table(bytes, previous);
}

}  // namespace binade
