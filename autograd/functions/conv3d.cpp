#include <algorithm>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/rearrange.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Checks shapes here, because conv2d() would report them as shapes of images. `filters` is the wanted shape of w.
/// Axis `read` of w must have the number of channels of x, divided by `shared`, as its extent.
void check_volumes(const char* name, const Variable& x, const Variable& w, const char* filters, std::int64_t groups,
                   int read, std::int64_t shared) {
  check<ShapeError>(x.value().rank() == 5 && w.value().rank() == 5,
                    "{}: wanted x (N, D, H, W, C) and w {}, got {} and {}", where(name), filters, x.shape(), w.shape());
  for (int axis = 1; axis < 5; ++axis)
    check<ShapeError>(
        x.dim(axis) <= ops::kMaxExtent && w.dim(axis) <= ops::kMaxExtent && x.dim(axis) > 0 && w.dim(axis) > 0,
        "{}: wanted volumes and filters with extents from 1 to 2^30, got {} and {}", where(name), x.shape(), w.shape());
  const std::int64_t channels = x.dim(4);
  check<ArgumentError>(groups > 0 && channels % groups == 0 && w.dim(0) > 0 && w.dim(0) % groups == 0,
                       "{}: wanted channels and filters in equal groups, got x {} and w {} in {} groups", where(name),
                       x.shape(), w.shape(), groups);
  check<ShapeError>(w.dim(read) == channels / shared, "{}: wanted w {} for x {} in {} groups, got {}", where(name),
                    filters, x.shape(), groups, w.shape());
}

void check_depth(const char* name, const char* what, std::int64_t value, std::int64_t least) {
  check<ArgumentError>(value >= least && value <= ops::kMaxExtent, "{}: wanted a {} in depth from {} to 2^30, got {}",
                       where(name), what, least, value);
}

/// Copies the planes that each filter covers in depth into the channels: x (N, D, H, W, C) -> (N O, H, W, C T), whose
/// channels are ordered by group, then by plane, then by channel of the group.
Variable planes_side_by_side(const Variable& x, std::int64_t taps, std::int64_t groups, std::int64_t stride,
                             std::int64_t padding, std::int64_t dilation) {
  const std::int64_t n = x.dim(0), depth = x.dim(1), height = x.dim(2), width = x.dim(3), channels = x.dim(4);
  const std::int64_t planes = (depth + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  const std::int64_t pixels = height * width * groups, part = channels / groups;
  Variable windows = reshape(x, {n, depth * pixels, part});
  const double positions = static_cast<double>(planes + padding + dilation) * static_cast<double>(taps) *
                           static_cast<double>(pixels);
  if (stride == 1 && positions < 0x1p60) {
    // One copy: position (plane, pixel, tap) reads position pixel + (plane + tap dilation - padding) pixels of x.
    if (taps > 1 || padding > 0)
      windows = apply_one<ops::Rearrange>(
          {.axis = 1,
           .map = {.begin = -padding * pixels, .window = taps, .inside = dilation * pixels, .extent = depth * pixels},
           .count = planes * pixels * taps,
           .name = "conv3d"},
          {windows});
  } else {
    windows = unfold2d(
        reshape(x, {n, depth, pixels, part}),
        {.kernel = {taps, 1}, .stride = {stride, 1}, .padding = {padding, 0}, .dilation = {dilation, 1}});
  }
  return reshape(windows, {n * planes, height, width, channels * taps});
}

/// conv_transpose3d() if each plane of y depends on one plane of x: T = stride.z, no padding or dilation in depth.
Variable without_overlap(const Variable& x, const Variable& w, const Variable& bias, const ConvTranspose3dParams& p,
                         const ops::ConvTranspose2d::Params& planes) {
  const std::int64_t n = x.dim(0), depth = x.dim(1), channels = x.dim(4);
  const std::int64_t taps = w.dim(1), outputs = w.dim(4), groups = p.groups;
  check<ShapeError>(!bias.defined() || bias.shape() == Shape{groups * outputs},
                    "conv_transpose3d: wanted one bias for each of {} channels, got {}", groups * outputs,
                    bias.defined() ? bias.shape() : Shape{});
  const Variable filters = reshape(permute(w, {0, 2, 3, 1, 4}), {channels, w.dim(2), w.dim(3), taps * outputs});
  Variable biases = bias;
  if (bias.defined())
    biases = reshape(expand(reshape(bias, {groups, 1, outputs}), {groups, taps, outputs}), {groups * taps * outputs});
  const Variable y = conv_transpose2d(reshape(x, {n * depth, x.dim(2), x.dim(3), channels}), filters, biases, planes);
  const std::int64_t height = y.dim(1), width = y.dim(2);
  const Variable parts = reshape(y, {n * depth, height, width, groups, taps, outputs});
  return reshape(permute(parts, {0, 4, 1, 2, 3, 5}), {n, depth * taps, height, width, groups * outputs});
}

}  // namespace

Variable conv3d(const Variable& x, const Variable& w, const Variable& bias, const Conv3dParams& p) {
  constexpr const char* kName = "conv3d";
  check_volumes(kName, x, w, "(K, T, R, S, C / groups)", p.groups, 4, p.groups);
  check_depth(kName, "stride", p.stride.z, 1);
  check_depth(kName, "padding", p.padding.z, 0);
  check_depth(kName, "dilation", p.dilation.z, 1);
  const std::int64_t taps = w.dim(1), reach = p.dilation.z * (taps - 1) + 1;
  check<ShapeError>(x.dim(1) + 2 * p.padding.z >= reach,
                    "{}: wanted volumes at least as deep as the filters, got x {} and w {} with padding {} and "
                    "dilation {}",
                    where(kName), x.shape(), w.shape(), p.padding, p.dilation);
  const Variable images = planes_side_by_side(x, taps, p.groups, p.stride.z, p.padding.z, p.dilation.z);
  const Variable filters = reshape(permute(w, {0, 2, 3, 1, 4}), {w.dim(0), w.dim(2), w.dim(3), taps * w.dim(4)});
  const Variable y = conv2d(
      images, filters, bias,
      {.stride = p.stride.plane(), .padding = p.padding.plane(), .dilation = p.dilation.plane(), .groups = p.groups});
  const std::int64_t planes = (x.dim(1) + 2 * p.padding.z - reach) / p.stride.z + 1;
  return reshape(y, {x.dim(0), planes, y.dim(1), y.dim(2), y.dim(3)});
}

Variable conv_transpose3d(const Variable& x, const Variable& w, const Variable& bias, const ConvTranspose3dParams& p) {
  constexpr const char* kName = "conv_transpose3d";
  check_volumes(kName, x, w, "(C, T, R, S, K / groups)", p.groups, 0, 1);
  check_depth(kName, "stride", p.stride.z, 1);
  check_depth(kName, "padding", p.padding.z, 0);
  check_depth(kName, "output_padding", p.output_padding.z, 0);
  check_depth(kName, "dilation", p.dilation.z, 1);
  check<ArgumentError>(p.output_padding.z < std::max(p.stride.z, p.dilation.z),
                       "{}: wanted an output_padding below stride or dilation, got {} with stride {} and dilation {}",
                       where(kName), p.output_padding, p.stride, p.dilation);
  const std::int64_t n = x.dim(0), depth = x.dim(1), channels = x.dim(4), taps = w.dim(1), outputs = w.dim(4);
  const std::int64_t reach = p.dilation.z * (taps - 1), groups = p.groups;
  const std::int64_t planes_of_y = (depth - 1) * p.stride.z - 2 * p.padding.z + reach + p.output_padding.z + 1;
  check<ShapeError>(planes_of_y > 0, "{}: wanted a result of at least one plane, got x {} and w {} with padding {}",
                    where(kName), x.shape(), w.shape(), p.padding);
  const ops::ConvTranspose2d::Params planes{.stride = p.stride.plane(),
                                            .padding = p.padding.plane(),
                                            .output_padding = p.output_padding.plane(),
                                            .dilation = p.dilation.plane(),
                                            .groups = groups};
  if (taps == p.stride.z && p.padding.z == 0 && p.output_padding.z == 0 && p.dilation.z == 1)
    return without_overlap(x, w, bias, p, planes);
  // In depth, y is a convolution with the reversed filter, of x with stride - 1 planes of zeros after each plane.
  const std::int64_t zeros = p.stride.z - 1, before = reach - p.padding.z;
  Variable spread = reshape(x, {n, depth, 1, x.dim(2) * x.dim(3) * channels});
  if (zeros > 0) spread = pad(spread, {0, 0, 0, zeros});
  spread = reshape(spread, {n, depth * p.stride.z, x.dim(2), x.dim(3), channels});
  spread = pad(spread, {0, 0, 0, 0, 0, 0, before, before + p.output_padding.z - zeros});
  const Variable images = planes_side_by_side(spread, taps, groups, 1, 0, p.dilation.z);
  const Variable grouped = reshape(flip(w, {1}), {groups, channels / groups, taps, w.dim(2), w.dim(3), outputs});
  const Variable filters = reshape(permute(grouped, {0, 2, 1, 3, 4, 5}),
                                   {channels * taps, w.dim(2), w.dim(3), outputs});
  const Variable y = conv_transpose2d(images, filters, bias, planes);
  return reshape(y, {n, planes_of_y, y.dim(1), y.dim(2), y.dim(3)});
}

}  // namespace binade
