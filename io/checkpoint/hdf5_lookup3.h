#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace binade::io {

/// Returns the checksum of HDF5's metadata: Bob Jenkins' lookup3 ("hashlittle") with initial value 0, as the HDF5 file
/// format specification requires.
std::uint32_t lookup3(std::span<const std::byte> bytes);

}  // namespace binade::io
