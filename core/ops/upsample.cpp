#include "binade/core/ops/upsample.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "binade/core/ops/extent2.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/resample.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Keys' cubic convolution kernel.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}
double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

/// One dimension of the image.
struct Dimension {
  std::int64_t extent, outputs;
  double step;  // pixels of x per pixel of y
  UpsampleMode mode;
  bool align_corners, antialias;

  Dimension(std::int64_t n, std::int64_t m, double given, const UpsampleParams& p)
      : extent(n), outputs(m), step(given), mode(p.mode), align_corners(p.align_corners), antialias(p.antialias) {
    if (align_corners)
      step = m > 1 ? static_cast<double>(n - 1) / static_cast<double>(m - 1) : 0;
    else if (given == 0)
      step = static_cast<double>(n) / static_cast<double>(m);
    exact_ratio = given == 0;
  }
  bool exact_ratio;  // step is extent / outputs

  /// The position in x of the center of output `o`.
  double position(std::int64_t o) const {
    const auto at = static_cast<double>(o);
    return align_corners ? at * step : (at + 0.5) * step - 0.5;
  }
  std::int64_t inside(double position) const {
    return static_cast<std::int64_t>(std::clamp(std::floor(position), 0.0, static_cast<double>(extent - 1)));
  }

  void add_nearest(TapList& list, std::int64_t o) const {
    if (mode == UpsampleMode::kNearestExact)
      list.add(exact_ratio ? (2 * o + 1) * extent / (2 * outputs) : inside((static_cast<double>(o) + 0.5) * step), 1);
    else
      list.add(exact_ratio ? o * extent / outputs : inside(static_cast<double>(o) * step), 1);
  }
  void add_linear(TapList& list, std::int64_t o) const {
    const double u = std::max(0.0, position(o));
    const std::int64_t i = inside(u);
    const double f = i + 1 < extent ? u - static_cast<double>(i) : 0;
    list.add(i, 1 - f);
    if (f > 0) list.add(i + 1, f);
  }
  void add_cubic(TapList& list, std::int64_t o) const {
    const double u = position(o), floor = std::floor(u), f = u - floor;
    std::map<std::int64_t, double> weights;  // taps beyond the edge are joined with that at the edge
    for (int k = -1; k <= 2; ++k) weights[inside(floor + k)] += cubic(f - k, -0.75);
    for (const auto& [source, weight] : weights)
      if (weight != 0) list.add(source, weight);
  }
  void add_filtered(TapList& list, std::int64_t o) const {
    const bool is_cubic = mode == UpsampleMode::kBicubic;
    const double scale = std::max(1.0, step), support = (is_cubic ? 2 : 1) * scale;
    const double center = (static_cast<double>(o) + 0.5) * step;  // with align_corners too, as in PyTorch
    const std::int64_t first = inside(center - support + 0.5), last = inside(center + support - 0.5);
    const auto weight_of = [&](std::int64_t i) {
      const double x = (static_cast<double>(i) - center + 0.5) / scale;
      return is_cubic ? cubic(x, -0.5) : triangle(x);
    };
    double total = 0;
    for (std::int64_t i = first; i <= last; ++i) total += weight_of(i);
    for (std::int64_t i = first; i <= last; ++i)
      if (const double weight = weight_of(i); weight != 0) list.add(i, weight / total);
  }
  /// Returns the number of positions that are averaged.
  std::int64_t add_area(TapList& list, std::int64_t o) const {
    const std::int64_t first = o * extent / outputs, end = ((o + 1) * extent + outputs - 1) / outputs;
    for (std::int64_t i = first; i < end; ++i) list.add(i, 1);
    return end - first;
  }

  TapList taps() const {
    TapList list(outputs, 2);
    for (std::int64_t o = 0; o < outputs; ++o) {
      std::int64_t division = 1;
      switch (mode) {
        case UpsampleMode::kNearest:
        case UpsampleMode::kNearestExact: add_nearest(list, o); break;
        case UpsampleMode::kBilinear: antialias ? add_filtered(list, o) : add_linear(list, o); break;
        case UpsampleMode::kBicubic: antialias ? add_filtered(list, o) : add_cubic(list, o); break;
        case UpsampleMode::kArea: division = add_area(list, o); break;
      }
      list.close(static_cast<double>(division));
    }
    return list;
  }
};

TapList rows_of(const Shape& x, const UpsampleParams& p) { return Dimension(x[1], p.out_height, p.step_y, p).taps(); }
TapList cols_of(const Shape& x, const UpsampleParams& p) { return Dimension(x[2], p.out_width, p.step_x, p).taps(); }

Tensors resized(const OpInfo& info, const OpContext& ctx, const Tensor& in, const UpsampleParams& p) {
  const Shape& shape = in.shape();
  check<ShapeError>(shape.rank() == 4, "{}: wanted x of shape (N, H, W, C), got {}", where(info.name), shape);
  for (const std::int64_t extent : {shape[1], shape[2], p.out_height, p.out_width})
    check<ShapeError>(extent >= 1 && extent <= kMaxExtent, "{}: wanted height and width of 1 to {}, got {} to ({}, {})",
                      where(info.name), kMaxExtent, shape, p.out_height, p.out_width);
  const bool interpolates = p.mode == UpsampleMode::kBilinear || p.mode == UpsampleMode::kBicubic;
  check<ArgumentError>(interpolates || !(p.align_corners || p.antialias),
                       "{}: align_corners and antialias are options of linear and cubic interpolation only",
                       where(info.name));
  // Also false for NaN. A step below 2^-40 or above 2^40 has no use, and positions would not fit in 64 bits.
  const auto usable = [](double step) { return step == 0 || (step >= 0x1p-40 && step <= 0x1p40); };
  check<ArgumentError>(usable(p.step_y) && usable(p.step_x),
                       "{}: wanted steps of 0 (the ratio of the sizes) or from 2^-40 to 2^40, got {} and {}",
                       where(info.name), p.step_y, p.step_x);
  const Tensor x = in.to(ctx.store_dtype);
  if (x.numel() == 0)
    return {Tensor::empty(Shape{shape[0], p.out_height, p.out_width, shape[3]}, x.dtype(), x.device())};
  return {resample(x, rows_of(shape, p), cols_of(shape, p), p.mode == UpsampleMode::kArea)};
}

void resized_backward(const OpContext& ctx, const Tensor& gy, GradSink& gx, const UpsampleParams& p) {
  const OpContext::Input& x = ctx.inputs[0];
  if (gy.numel() == 0) return InputGradient(gx, 0, gy.dtype()).finish();
  resample_backward(gy, x, gx, rows_of(x.shape, p), cols_of(x.shape, p), p.mode == UpsampleMode::kArea);
}

}  // namespace

Tensors Upsample::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return resized(info, ctx, in[0], p);
}
void Upsample::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  resized_backward(ctx, gy[0], gx, p);
}

Tensors UpsampleBicubic::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return resized(info, ctx, in[0], p);
}
void UpsampleBicubic::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  resized_backward(ctx, gy[0], gx, p);
}

}  // namespace binade::ops
