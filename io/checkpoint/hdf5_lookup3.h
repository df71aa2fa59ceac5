#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace binade::io {

/// The checksum of HDF5's own metadata: Bob Jenkins' lookup3 ("hashlittle") with initial value 0, as the HDF5 file
/// format specification names it.
std::uint32_t lookup3(std::span<const std::byte> bytes);

}  // namespace binade::io
