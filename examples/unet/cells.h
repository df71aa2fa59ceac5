#pragma once

#include <cstdint>

#include "binade/io/data/image_data.h"
#include "binade/io/data/png.h"

namespace binade::examples {

/// Images that need no download: nuclei as in fluorescence microscopy, drawn by a seeded generator. They are bright,
/// blurred and textured, of varying size and brightness, and some touch or overlap; the illumination is uneven, the
/// background hazy, with shot and read noise. Grey, 8 bits.
struct CellOptions {
  std::int64_t count = 32;
  std::int64_t size = 256;  ///< pixels a side
  std::uint64_t seed = 0;
};

struct CellImage {
  io::Image image{};
  io::Image mask{};  ///< 255 inside a nucleus, 0 elsewhere
};

/// Draws image number `index` of a seed; depends on (seed, index, size) only. Throws ArgumentError for size < 16.
CellImage draw_cells(std::uint64_t seed, std::int64_t index, std::int64_t size);

/// Returns the whole set with binary masks, as if read from a folder; names are cell-000, ….
io::ImageSet embedded_cells(const CellOptions& options = {}, bool normalize = true);

}  // namespace binade::examples
