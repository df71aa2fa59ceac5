#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/tile.h"

/// A convolution and its data gradient as sums over filter positions. Only for sources in `kernel_sources`
/// (meson.build).
namespace binade::cpu::BINADE_ISA {

/// One position of the filter. Its term in the sum for result pixel p is source pixel source_step * p + (y, x) times
/// the weights at filter position `index`.
struct Tap {
  std::int64_t y = 0, x = 0;
  std::int64_t index = 0;
};

/// Computes result pixels first + i result_step for all i in (height, width), each a sum over taps and source channels.
/// `taps` is empty if the sums have no terms.
struct Sweep {
  std::vector<Tap> taps;  ///< some rows of the filter with some columns each, by ascending y, then x
  std::int64_t source_step[2] = {1, 1};
  std::int64_t height = 0, width = 0;
  std::int64_t first[2] = {0, 0};
  std::int64_t result_step[2] = {1, 1};
  // Filter element (result channel j, source channel i of group g, position p) is at
  // g * filter_group + j * filter_j + i * filter_i + p * filter_position.
  std::int64_t filter_group = 0, filter_j = 0, filter_i = 0, filter_position = 0;
};

/// Returns the sweep of a convolution forward.
inline Sweep forward_sweep(const ConvShape& s) {
  const std::int64_t channels = s.channels / s.groups, filters = s.filters / s.groups;
  Sweep sweep;
  for (std::int64_t r = 0; r < s.filter_height && channels > 0; ++r)
    for (std::int64_t c = 0; c < s.filter_width; ++c)
      sweep.taps.push_back(
          {r * s.dilation[0] - s.padding[0], c * s.dilation[1] - s.padding[1], r * s.filter_width + c});
  sweep.source_step[0] = s.stride[0];
  sweep.source_step[1] = s.stride[1];
  sweep.height = s.out_height;
  sweep.width = s.out_width;
  sweep.filter_i = 1;
  sweep.filter_position = channels;
  sweep.filter_j = s.filter_height * s.filter_width * channels;
  sweep.filter_group = filters * sweep.filter_j;
  return sweep;
}

/// Calls f(sweep) for each phase of the data gradient (position of a pixel of gx modulo the stride).
template <class F>
void for_each_phase(const ConvShape& s, F&& f) {
  const std::int64_t channels = s.channels / s.groups, filters = s.filters / s.groups;
  const bool nothing = filters == 0 || s.out_height == 0 ||
                       s.out_width == 0;  // no terms: with an empty list of taps, no image is copied
  // x pixel h contributes to y pixel p if h + padding = p stride + r dilation. For h = phase + i stride these are the r
  // for which the stride divides (phase + padding - r dilation), and p = i + that quotient.
  for (std::int64_t phase_y = 0; phase_y < std::min(s.stride[0], s.height); ++phase_y)
    for (std::int64_t phase_x = 0; phase_x < std::min(s.stride[1], s.width); ++phase_x) {
      Sweep sweep;
      for (std::int64_t r = s.filter_height - 1; r >= 0 && !nothing; --r)
        for (std::int64_t c = s.filter_width - 1; c >= 0; --c) {
          const std::int64_t y = phase_y + s.padding[0] - r * s.dilation[0];
          const std::int64_t x = phase_x + s.padding[1] - c * s.dilation[1];
          if (y % s.stride[0] == 0 && x % s.stride[1] == 0)
            sweep.taps.push_back({y / s.stride[0], x / s.stride[1], r * s.filter_width + c});
        }
      sweep.height = ceil_div(s.height - phase_y, s.stride[0]);
      sweep.width = ceil_div(s.width - phase_x, s.stride[1]);
      sweep.first[0] = phase_y;
      sweep.first[1] = phase_x;
      sweep.result_step[0] = s.stride[0];
      sweep.result_step[1] = s.stride[1];
      sweep.filter_j = 1;
      sweep.filter_position = channels;
      sweep.filter_i = s.filter_height * s.filter_width * channels;
      sweep.filter_group = filters * sweep.filter_i;
      f(sweep);
    }
}

}  // namespace binade::cpu::BINADE_ISA
