#include "binade/io/onnx/nodes/resize.h"

#include <algorithm>
#include <cmath>

namespace binade::onnx {
namespace {

/// One axis: its extents, and the position in x of each position of y, which may lie between elements or outside.
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
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Axis& axis = axes[static_cast<std::size_t>(from_start(chosen[i], static_cast<int>(rank)))];
    if (n.has(2)) {
      axis.scale = n[2].value().at(static_cast<std::int64_t>(i));
      axis.to = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.from) * axis.scale));
    } else {
      axis.to = n.list(3)[i];
      axis.scale = static_cast<double>(axis.to) / static_cast<double>(axis.from);
      common = policy == "not_larger" ? std::min(common, axis.scale) : std::max(common, axis.scale);
    }
  }
  if (policy != "stretch")
    for (const std::int64_t i : chosen) {
      Axis& axis = axes[static_cast<std::size_t>(from_start(i, static_cast<int>(rank)))];
      axis.scale = common;
      axis.to = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.from) * common + 0.5));
    }
  return axes;
}

double position(const std::string& mode, const Axis& axis, double i) {
  const auto from = static_cast<double>(axis.from), to = static_cast<double>(axis.to);
  if (mode == "asymmetric") return i / axis.scale;
  if (mode == "align_corners") return axis.to == 1 ? 0 : i * (from - 1) / (to - 1);
  if (mode == "pytorch_half_pixel" && axis.to == 1) return 0;
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

/// Whether upsample_to() interpolates at these positions: half-pixel centers, the edge repeated.
bool is_half_pixel(const Axis& axis) {
  for (std::size_t i = 0; i < axis.positions.size(); ++i) {
    const double last = static_cast<double>(axis.from - 1);
    const double ours = (static_cast<double>(i) + 0.5) * static_cast<double>(axis.from) / static_cast<double>(axis.to) -
                        0.5;
    if (std::abs(std::clamp(ours, 0.0, last) - std::clamp(axis.positions[i], 0.0, last)) > 1e-6) return false;
  }
  return true;
}

}  // namespace

Variable resized(const Node& n) {
  const std::string mode = n.text("mode", "nearest"), where = n.text("coordinate_transformation_mode", "half_pixel");
  cannot_if(mode == "cubic", "upsample_to() has no cubic interpolation");
  cannot_if(where == "tf_crop_and_resize", "upsample_to() does not crop");
  cannot_if(n.integer("antialias", 0) != 0, "upsample_to() has no filter against aliasing");
  std::vector<Axis> axes = axes_of(n);
  cannot_if(axes.size() != 4 || axes[0].from != axes[0].to || axes[1].from != axes[1].to,
            "upsample_to() is for images");
  for (Axis& axis : axes)
    for (std::int64_t i = 0; i < axis.to; ++i) axis.positions.push_back(position(where, axis, static_cast<double>(i)));
  if (mode == "nearest") {
    const std::string rounding = n.text("nearest_mode", "round_prefer_floor");
    return index_select(index_select(n[0], 2, nearest(axes[2], rounding)), 3, nearest(axes[3], rounding));
  }
  cannot_if(!is_half_pixel(axes[2]) || !is_half_pixel(axes[3]),
            "upsample_to() interpolates between half-pixel centers");
  return channels_first(upsample_to(channels_last(n[0]), axes[2].to, axes[3].to, UpsampleMode::kBilinear));
}

}  // namespace binade::onnx
