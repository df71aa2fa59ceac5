#include "binade/cuda/device/conv_plan.h"

#include <fmt/format.h>

namespace binade::cuda {
namespace {

constexpr const char* kPasses[] = {"forward", "data-gradient", "weight-gradient"};

}  // namespace

std::array<std::int64_t, ConvKey::kNumbers> ConvKey::numbers() const {
  const ConvShape& s = shape;
  return numbers_of(pass, in, out, s.images, s.height, s.width, s.channels, x_pitch, x_alignment, s.out_height,
                    s.out_width, s.filters, y_pitch, y_alignment, s.filter_height, s.filter_width, w_alignment,
                    s.stride[0], s.stride[1], s.padding[0], s.padding[1], s.dilation[0], s.dilation[1],
                    2 * s.groups + (bias ? 1 : 0), tf32);
}

std::string ConvKey::text() const {
  const ConvShape& s = shape;
  return fmt::format(
      "conv {} {} {} x {} {} {} {} pitch {} align {} y {} {} {} pitch {} align {} w {} {} align {} stride {} {} "
      "padding "
      "{} {} dilation {} {} groups {} bias {} tf32 {}",
      kPasses[static_cast<int>(pass)], name_of(in), name_of(out), s.images, s.height, s.width, s.channels, x_pitch,
      x_alignment, s.out_height, s.out_width, s.filters, y_pitch, y_alignment, s.filter_height, s.filter_width,
      w_alignment, s.stride[0], s.stride[1], s.padding[0], s.padding[1], s.dilation[0], s.dilation[1], s.groups,
      bias ? 1 : 0, tf32 ? 1 : 0);
}

ConvKey conv_key(const ConvArgs& a) {
  const int source = alignment_of(a.source), result = alignment_of(a.result);
  return {.pass = a.transposed ? ConvPass::kDataGradient : ConvPass::kForward,
          .in = a.in,
          .out = a.out,
          .shape = a.shape,
          .x_pitch = a.transposed ? a.result_pitch : a.source_pitch,
          .y_pitch = a.transposed ? a.source_pitch : a.result_pitch,
          .x_alignment = a.transposed ? result : source,
          .w_alignment = alignment_of(a.filter),
          .y_alignment = a.transposed ? source : result,
          .bias = a.bias != nullptr,
          .tf32 = a.tf32 && a.in == DType::f32};
}

ConvKey conv_key(const ConvWeightArgs& a) {
  return {.pass = ConvPass::kWeightGradient,
          .in = a.in,
          .out = accumulate_dtype(a.in),
          .shape = a.shape,
          .x_pitch = a.x_pitch,
          .y_pitch = a.gy_pitch,
          .x_alignment = alignment_of(a.x),
          .w_alignment = alignment_of(a.gw),
          .y_alignment = alignment_of(a.gy),
          .tf32 = a.tf32 && a.in == DType::f32};
}

std::string no_library_for(const ConvKey& key) {
  const ConvShape& s = key.shape;
  if (key.in == DType::f64) return "cuDNN is not used for f64";
  // A result may be smaller than the formula says (conv_transpose2d with an output padding beyond the stride).
  const std::int64_t extents[2] = {s.height, s.width}, outs[2] = {s.out_height, s.out_width},
                     filters[2] = {s.filter_height, s.filter_width};
  for (int d = 0; d < 2; ++d) {
    const std::int64_t span = extents[d] + 2 * s.padding[d] - s.dilation[d] * (filters[d] - 1) - 1;
    if (span < 0 || span / s.stride[d] + 1 != outs[d]) return "its output padding exceeds the stride";
  }
  return {};
}

}  // namespace binade::cuda
