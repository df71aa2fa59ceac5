#pragma once

#include <cstdint>

#include "binade/io/data/image_data.h"
#include "binade/io/data/png.h"

namespace binade::examples {

/// Options of a set of images that needs no download: cell nuclei as in fluorescence microscopy, drawn by a seeded
/// generator as grey images of 8 bits. The nuclei are bright, blurred and textured, have different sizes and
/// brightness, and some touch or overlap. The illumination is uneven and the background hazy, and there is shot and
/// read noise.
struct CellOptions {
  std::int64_t count = 32;
  std::int64_t size = 256;  ///< height and width in pixels
  std::uint64_t seed = 0;
};

/// A drawn image and the mask of its nuclei.
struct CellImage {
  io::Image image{};
  io::Image mask{};  ///< 255 inside a nucleus, 0 elsewhere
};

/// Draws image number `index` of a seed. The image depends on (seed, index, size) only. Throws ArgumentError for size <
/// 16.
CellImage draw_cells(std::uint64_t seed, std::int64_t index, std::int64_t size);

/// Returns the whole set with binary masks, like a set that is read from a folder. The images are named cell-000,
/// cell-001, ….
io::ImageSet embedded_cells(const CellOptions& options = {}, bool normalize = true);

}  // namespace binade::examples
