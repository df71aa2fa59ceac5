#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace binade {

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, as in iSCSI, RFC 3720 appendix B.4). `previous` is the CRC of what came
/// before, so that crc32c(b, crc32c(a)) is the CRC of a followed by b. CRC of nothing is 0.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

inline std::uint32_t crc32c(const void* bytes, std::size_t count, std::uint32_t previous = 0) {
  return crc32c(std::span(static_cast<const std::byte*>(bytes), count), previous);
}

namespace detail {
/// The definition, eight bytes at a time by table; what a processor without the instruction runs.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t previous);
}  // namespace detail

}  // namespace binade
