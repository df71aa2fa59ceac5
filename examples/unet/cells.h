#pragma once

#include <cstdint>

#include "binade/io/data/image_data.h"
#include "binade/io/data/png.h"

namespace binade::examples {

/// The images that need no download: nuclei as a fluorescence microscope shows them, drawn by a seeded generator.
/// Bright, blurred, textured, of uneven size and brightness, some of them touching or overlapping, under a light that
/// falls off to one side, over a hazy background, with shot and read noise. Grey, 8 bits.
struct CellOptions {
  std::int64_t count = 32;
  std::int64_t size = 256;  ///< pixels a side
  std::uint64_t seed = 0;
};

struct CellImage {
  io::Image image{};
  io::Image mask{};  ///< 255 inside a nucleus, 0 elsewhere
};

/// Image number `index` of a seed: a function of (seed, index, size) alone. Throws ArgumentError for size < 16.
CellImage draw_cells(std::uint64_t seed, std::int64_t index, std::int64_t size);

/// The whole set as a folder of such files would be read (binary masks), names cell-000 ….
io::ImageSet embedded_cells(const CellOptions& options = {}, bool normalize = true);

}  // namespace binade::examples
