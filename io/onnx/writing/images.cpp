#include <cmath>

#include "binade/core/ops/avg_pool2d.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/upsample.h"
#include "binade/io/onnx/writing/recorder.h"

/// Ops on images, which ONNX has as (N, C, H, W).
namespace binade::onnx {
namespace {

Integers both(Extent2 e) { return {e.y, e.x}; }
Integers pads(Extent2 e) { return {e.y, e.x, e.y, e.x}; }
const Integers kFilter{0, 3, 1, 2};

void conv2d(Call& c) {
  const auto& p = c.params<ops::Conv2d>();
  c.result(0,
           c.node("Conv", {c.channels_first(0), c.transposed(1, kFilter), c.has(2) ? c.number(2) : ""},
                  {{"kernel_shape", Integers{c.in(1).dim(1), c.in(1).dim(2)}},
                   {"strides", both(p.stride)},
                   {"pads", pads(p.padding)},
                   {"dilations", both(p.dilation)},
                   {"group", p.groups}}),
           true);
}

void conv_transpose2d(Call& c) {
  const auto& p = c.params<ops::ConvTranspose2d>();
  c.result(0,
           c.node("ConvTranspose", {c.channels_first(0), c.transposed(1, kFilter), c.has(2) ? c.number(2) : ""},
                  {{"kernel_shape", Integers{c.in(1).dim(1), c.in(1).dim(2)}},
                   {"strides", both(p.stride)},
                   {"pads", pads(p.padding)},
                   {"output_padding", both(p.output_padding)},
                   {"dilations", both(p.dilation)},
                   {"group", p.groups}}),
           true);
}

void max_pool2d(Call& c) {
  const auto& p = c.params<ops::MaxPool2d>();
  const std::string x = c.channels_first(0);
  const WrittenAttributes windows{
      {"kernel_shape", both(p.kernel)}, {"strides", both(p.stride)}, {"pads", pads(p.padding)}};
  c.result(0, c.node("MaxPool", {x}, windows), true);
  if (c.results() > 1) c.problem("MaxPool has no positions in a window", 1);
}

void avg_pool2d(Call& c) {
  const auto& p = c.params<ops::AvgPool2d>();
  c.result(0,
           c.node("AveragePool", {c.channels_first(0)},
                  {{"kernel_shape", both(p.kernel)},
                   {"strides", both(p.stride)},
                   {"pads", pads(p.padding)},
                   {"count_include_pad", std::int64_t{p.count_include_pad ? 1 : 0}}}),
           true);
}

/// Writes a Resize to given extents or, if the op has its own step between positions, by the scale 1 / step.
void upsample(Call& c) {
  const auto& p = c.params<ops::Upsample>();
  no_counterpart_if(p.antialias, "Resize of opset 17 has no filter against aliasing");
  const std::string x = c.channels_first(0);
  const std::int64_t height = c.in(0).dim(1), width = c.in(0).dim(2);
  if (p.mode == ops::UpsampleMode::kArea) {
    no_counterpart_if(height % p.out_height != 0 || width % p.out_width != 0, "Resize has no averages of areas");
    const Integers size{height / p.out_height, width / p.out_width};
    return c.result(0, c.node("AveragePool", {x}, {{"kernel_shape", size}, {"strides", size}}), true);
  }
  WrittenAttributes how;
  std::string mode = "nearest", positions = "half_pixel";
  switch (p.mode) {
    case ops::UpsampleMode::kNearest:
      positions = "asymmetric";
      how["nearest_mode"] = std::string("floor");
      break;
    case ops::UpsampleMode::kNearestExact: how["nearest_mode"] = std::string("round_prefer_ceil"); break;
    case ops::UpsampleMode::kBicubic:
      mode = "cubic";
      how["cubic_coeff_a"] = -0.75;
      break;
    default: mode = "linear";
  }
  if (p.align_corners && mode != "nearest") positions = "align_corners";
  how["mode"] = mode;
  how["coordinate_transformation_mode"] = positions;
  const bool stepped = positions != "align_corners" && (p.step_y != 0 || p.step_x != 0);
  if (!stepped) {
    const Integers size{c.in(0).dim(0), c.in(0).dim(3), p.out_height, p.out_width};
    return c.result(0, c.node("Resize", {x, "", "", c.list(size)}, how), true);
  }
  const auto scale = [](double step, std::int64_t from, std::int64_t to) {
    return static_cast<float>(step != 0 ? 1 / step : static_cast<double>(to) / static_cast<double>(from));
  };
  const float y = scale(p.step_y, height, p.out_height), z = scale(p.step_x, width, p.out_width);
  const auto reached = [](std::int64_t from, float s) {
    return static_cast<std::int64_t>(std::floor(static_cast<float>(from) * s));
  };
  no_counterpart_if(reached(height, y) != p.out_height || reached(width, z) != p.out_width,
                    "Resize cannot have both this step and this size");
  c.result(0, c.node("Resize", {x, "", c.tensor(Tensor::from({1.f, 1.f, y, z}, {4}))}, how), true);
}

}  // namespace

OpWriters image_writers() {
  return {
      {&ops::Conv2d::info, conv2d},
      {&ops::ConvTranspose2d::info, conv_transpose2d},
      {&ops::MaxPool2d::info, max_pool2d},
      {&ops::MaxPool2dIndices::info, max_pool2d},
      {&ops::AvgPool2d::info, avg_pool2d},
      {&ops::Upsample::info, upsample},
      {&ops::UpsampleBicubic::info, upsample},
  };
}

}  // namespace binade::onnx
