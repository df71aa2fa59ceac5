#include "binade/io/onnx/nodes/resize.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace binade::onnx {
namespace {

/// One axis: its extents in x and y, and where each position of y lies in x: at, between or outside of elements.
struct Axis {
  std::int64_t from = 1, to = 1;
  double scale = 1;
  std::vector<double> positions{};
};

/// The extents and scales of all axes.
std::vector<Axis> axes_of(const Node& n) {
  const auto rank = static_cast<std::size_t>(rank_of(n[0]));
  std::vector<std::int64_t> chosen = n.integers("axes");
  if (chosen.empty())
    for (std::size_t i = 0; i < rank; ++i) chosen.push_back(static_cast<std::int64_t>(i));
  std::vector<Axis> axes(rank);
  for (std::size_t i = 0; i < rank; ++i) axes[i].from = axes[i].to = n[0].dim(static_cast<int>(i));
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  double common = policy == "not_larger" ? HUGE_VAL : 0;
  const bool by_scale = n.has(2) && n[2].value().numel() > 0;
  unsupported_if(!by_scale && !n.has(3), "neither scales nor sizes");
  const Tensor scales = by_scale ? n[2].value().on_host() : Tensor();
  const std::vector<std::int64_t> sizes = by_scale ? std::vector<std::int64_t>() : n.list(3);
  check_count("scales or sizes", by_scale ? static_cast<std::size_t>(scales.numel()) : sizes.size(), chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Axis& axis = axes[static_cast<std::size_t>(from_start(chosen[i], static_cast<int>(rank)))];
    if (by_scale) {
      axis.scale = scales.at(static_cast<std::int64_t>(i));
      unsupported_if(!(axis.scale > 0 && axis.scale < 65536), "a scale out of range");
      axis.to = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.from) * axis.scale));
    } else {
      axis.to = sizes[i];
      axis.scale = static_cast<double>(axis.to) / static_cast<double>(axis.from);
      common = policy == "not_larger" ? std::min(common, axis.scale) : std::max(common, axis.scale);
    }
  }
  for (const Axis& axis : axes)
    unsupported_if(axis.from < 1 || axis.to < 1 || axis.to > (std::int64_t{1} << 30), "a size out of range");
  if (policy != "stretch")
    for (const std::int64_t i : chosen) {
      Axis& axis = axes[static_cast<std::size_t>(from_start(i, static_cast<int>(rank)))];
      axis.scale = common;
      axis.to = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.from) * common + 0.5));
    }
  return axes;
}

const std::set<std::string> kPositions{"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                       "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};

double position(const std::string& mode, const Axis& axis, double i) {
  const auto from = static_cast<double>(axis.from), to = static_cast<double>(axis.to);
  if (mode == "asymmetric") return i / axis.scale;
  if (mode == "align_corners") return axis.to == 1 ? 0 : i * (from - 1) / (to - 1);
  if (mode == "pytorch_half_pixel" && axis.to == 1) return 0;
  if (mode == "tf_half_pixel_for_nn") return (i + 0.5) / axis.scale;  // of opset 11 and 12
  const double half_pixel = (i + 0.5) / axis.scale - 0.5;
  if (mode != "half_pixel_symmetric") return half_pixel;
  return from / 2 * (1 - to / (axis.scale * from)) + half_pixel;
}

/// The elements that are nearest to the positions of an axis, as an index.
Variable nearest(const Axis& axis, const std::string& rounding) {
  std::vector<std::int64_t> index;
  for (const double p : axis.positions) {
    const double i = rounding == "floor"               ? std::floor(p)
                     : rounding == "ceil"              ? std::ceil(p)
                     : rounding == "round_prefer_ceil" ? std::floor(p + 0.5)
                                                       : std::ceil(p - 0.5);
    index.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(i), 0, axis.from - 1));
  }
  return Tensor::from(index, Shape{axis.to});
}

/// True if upsample_to() interpolates at the same positions: half-pixel centers, clamped to the edge.
bool is_half_pixel(const Axis& axis) {
  for (std::size_t i = 0; i < axis.positions.size(); ++i) {
    const double last = static_cast<double>(axis.from - 1);
    const double ours = (static_cast<double>(i) + 0.5) * static_cast<double>(axis.from) / static_cast<double>(axis.to) -
                        0.5;
    if (std::abs(std::clamp(ours, 0.0, last) - std::clamp(axis.positions[i], 0.0, last)) > 1e-6) return false;
  }
  return true;
}

/// The weight of an element at distance t: a triangle, or Keys' cubic polynomial.
double weight_at(double t, bool cubic, double a) {
  t = std::abs(t);
  if (!cubic) return std::max(0.0, 1 - t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? a * (((t - 5) * t + 8) * t - 4) : 0;
}

/// The interpolation along an axis as a matrix (to, from) of weights. Positions beyond the edge read the element at the
/// edge, or are omitted.
Variable weights_of(const Node& n, const Axis& axis, bool cubic) {
  const double a = n.number("cubic_coeff_a", -0.75), support = cubic ? 2 : 1;
  const bool left_out = n.integer("exclude_outside", 0) != 0;
  std::vector<float> weights(static_cast<std::size_t>(axis.to * axis.from), 0.f);
  for (std::int64_t o = 0; o < axis.to; ++o) {
    const double u = axis.positions[static_cast<std::size_t>(o)];
    std::vector<std::pair<std::int64_t, double>> taps;
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(std::ceil(u - support)); static_cast<double>(i) <= u + support; ++i) {
      if (left_out && (i < 0 || i >= axis.from)) continue;
      taps.emplace_back(std::clamp<std::int64_t>(i, 0, axis.from - 1), weight_at(static_cast<double>(i) - u, cubic, a));
      sum += taps.back().second;
    }
    for (const auto& [i, w] : taps)
      weights[static_cast<std::size_t>(o * axis.from + i)] += static_cast<float>(left_out ? w / sum : w);
  }
  return Tensor::from(weights, Shape{axis.to, axis.from});
}

Variable interpolated(const Node& n, const std::vector<Axis>& axes, bool cubic) {
  Variable y = n[0];
  for (int i = 0; i < static_cast<int>(axes.size()); ++i) {
    const Axis& axis = axes[static_cast<std::size_t>(i)];
    if (axis.from == axis.to && is_half_pixel(axis)) continue;
    const Variable w = cast(weights_of(n, axis, cubic), y.dtype() == DType::f64 ? DType::f64 : DType::f32);
    y = movedim(matmul(movedim(cast(y, w.dtype()), {i}, {-1}), w, {.transpose_b = true}), {-1}, {i});
  }
  return y;
}

}  // namespace

Variable resized(const Node& n) {
  const std::string mode = n.text("mode", "nearest"), where = n.text("coordinate_transformation_mode", "half_pixel");
  unsupported_if(where == "tf_crop_and_resize", "upsample_to() does not crop");
  unsupported_if(!kPositions.contains(where), "coordinate_transformation_mode " + where);
  unsupported_if(mode != "nearest" && mode != "linear" && mode != "cubic", "mode " + mode);
  unsupported_if(n.integer("antialias", 0) != 0, "upsample_to() has no filter against aliasing");
  std::vector<Axis> axes = axes_of(n);
  for (const Axis& axis : axes)
    unsupported_if(where == "align_corners" && mode != "nearest" &&
                       axis.scale * static_cast<double>(axis.from) != static_cast<double>(axis.to),
                   "upsample_to() aligns corners of whole sizes");
  bool plain = axes.size() == 4 && mode == "linear";
  for (std::size_t d = 0; d < axes.size(); ++d) {
    Axis& axis = axes[d];
    for (std::int64_t i = 0; i < axis.to; ++i) axis.positions.push_back(position(where, axis, static_cast<double>(i)));
    plain = plain && (d < 2 ? axis.from == axis.to : is_half_pixel(axis));
  }
  if (plain) return channels_first(upsample_to(channels_last(n[0]), axes[2].to, axes[3].to, UpsampleMode::kBilinear));
  if (mode != "nearest") return interpolated(n, axes, mode == "cubic");
  const std::string rounding = n.text("nearest_mode", "round_prefer_floor");
  Variable y = n[0];
  for (std::size_t d = 0; d < axes.size(); ++d)
    if (axes[d].from != axes[d].to || where != "half_pixel")
      y = index_select(y, static_cast<int>(d), nearest(axes[d], rounding));
  return y;
}

}  // namespace binade::onnx
