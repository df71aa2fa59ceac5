#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/tile.h"

/// Copies image rows with a border of zeros into the lanes that the register tile reads. Only for sources in
/// `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// The largest number of lanes that a loop copies; for more lanes, a call of memcpy() is faster.
inline constexpr std::int64_t kFewLanes = 64;

/// Copies `channels` contiguous values as lanes; the last of an odd number gets a zero as its partner.
template <class Lane, class T>
inline void to_lanes(const T* from, std::int64_t channels, typename Lane::Stored* to) {
  using Stored = typename Lane::Stored;
  if constexpr (Lane::kDepth == 2) {
    if (channels % 2 != 0) to[channels / 2] = 0;
    std::memcpy(to, from, static_cast<std::size_t>(channels) * sizeof(T));
  } else if (std::is_same_v<T, Stored> && channels > kFewLanes) {
    std::memcpy(to, from, static_cast<std::size_t>(channels) * sizeof(T));
  } else {
    each_group<T>(channels, [&](std::int64_t i, auto part) { put(to + i, get(from + i, part), part); });
  }
}

/// One image (height, width, groups x channels), whose pixels are `pitch` elements apart.
template <class T>
struct Image {
  const T* data = nullptr;
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 0;  ///< channels of one group
  std::int64_t groups = 1;
  std::int64_t pitch = 0;
};

/// Copies rows [y, y + rows) and columns [x, x + columns) as (rows, columns, pixel_lanes). The channels of convolution
/// group g begin at lane g * ceil(channels / kDepth), where `channels` counts those of one group. Pixels outside the
/// image are 0; lanes after the last group are not written.
template <class Lane, class T>
void copy_with_border(const Image<T>& image, std::int64_t y, std::int64_t rows, std::int64_t x, std::int64_t columns,
                      std::int64_t pixel_lanes, typename Lane::Stored* to) {
  using Stored = typename Lane::Stored;
  const std::int64_t group_lanes = (image.channels + Lane::kDepth - 1) / Lane::kDepth;
  const std::int64_t all = image.channels * image.groups;
  const bool joined = image.groups == 1 || image.channels % Lane::kDepth == 0;
  const bool one_run = joined && image.pitch == all && pixel_lanes * Lane::kDepth == all;
  const std::int64_t row_lanes = columns * pixel_lanes;
  const std::int64_t begin = x < 0 ? (-x < columns ? -x : columns) : 0;  // columns [begin, end) are inside
  const std::int64_t end = image.width - x < begin ? begin : (image.width - x < columns ? image.width - x : columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    Stored* row = to + r * row_lanes;
    if (y + r < 0 || y + r >= image.height) {
      std::memset(row, 0, static_cast<std::size_t>(row_lanes) * sizeof(Stored));
      continue;
    }
    std::memset(row, 0, static_cast<std::size_t>(begin * pixel_lanes) * sizeof(Stored));
    std::memset(row + end * pixel_lanes, 0, static_cast<std::size_t>((columns - end) * pixel_lanes) * sizeof(Stored));
    if (end == begin || all == 0) continue;  // an image of size 0 has no memory to point to
    const T* from = image.data + ((y + r) * image.width + x + begin) * image.pitch;
    if (one_run) {
      to_lanes<Lane>(from, (end - begin) * all, row + begin * pixel_lanes);
      continue;
    }
    for (std::int64_t c = begin; c < end; ++c) {
      const T* pixel = from + (c - begin) * image.pitch;
      Stored* lanes = row + c * pixel_lanes;
      if (joined)
        to_lanes<Lane>(pixel, all, lanes);
      else
        for (std::int64_t g = 0; g < image.groups; ++g)
          to_lanes<Lane>(pixel + g * image.channels, image.channels, lanes + g * group_lanes);
    }
  }
}

}  // namespace binade::cpu::BINADE_ISA
