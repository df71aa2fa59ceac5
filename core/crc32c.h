#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace binade {

/// Returns the CRC-32C (Castagnoli, polynomial 0x1EDC6F41, as in iSCSI, RFC 3720 appendix B.4) of `bytes`. `previous`
/// is the CRC of the bytes before them: crc32c(b, crc32c(a)) is the CRC of a followed by b. The CRC of no bytes is 0.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

inline std::uint32_t crc32c(const void* bytes, std::size_t count, std::uint32_t previous = 0) {
  return crc32c(std::span(static_cast<const std::byte*>(bytes), count), previous);
}

namespace detail {
/// Computes the CRC eight bytes at a time from tables, for processors without an instruction for it.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t previous);
}  // namespace detail

}  // namespace binade
