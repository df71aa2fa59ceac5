#include <cmath>

#include "binade/autograd/functions/norm.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/rms_norm.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

constexpr double kEps = 1e-3;

/// Normalizes the elements i of x that have the same group_of(i), then applies weight and bias of channel i % cols.
template <class F>
Expected normalized(const Array& x, const Array* weight, const Array* bias, bool centered, F&& group_of) {
  const std::int64_t cols = x.shape.cols();
  std::vector<double> mean, square, count;
  for (std::int64_t i = 0; i < x.shape.numel(); ++i) {
    const std::size_t g = static_cast<std::size_t>(group_of(i));
    if (g >= mean.size()) mean.resize(g + 1), square.resize(g + 1), count.resize(g + 1);
    mean[g] += x[i];
    count[g] += 1;
  }
  for (std::size_t g = 0; g < mean.size(); ++g) mean[g] = centered ? mean[g] / count[g] : 0;
  for (std::int64_t i = 0; i < x.shape.numel(); ++i) {
    const std::size_t g = static_cast<std::size_t>(group_of(i));
    square[g] += (x[i] - mean[g]) * (x[i] - mean[g]);
  }
  Expected y;
  for (std::int64_t i = 0; i < x.shape.numel(); ++i) {
    const std::size_t g = static_cast<std::size_t>(group_of(i));
    const double rstd = 1 / std::sqrt(square[g] / count[g] + kEps);
    const double w = weight == nullptr ? 1 : (*weight)[i % cols], b = bias == nullptr ? 0 : (*bias)[i % cols];
    y.values.push_back((x[i] - mean[g]) * rstd * w + b);
    y.terms.push_back(16 + std::log2(1 + count[g]) * 4);
    y.magnitude.push_back((std::abs(x[i]) + std::abs(mean[g]) + 1) * rstd * std::abs(w) + std::abs(b));
  }
  return y;
}

std::vector<ShapeClass> with_channels() {
  std::vector<ShapeClass> shapes;
  for (const ShapeClass& c : shape_classes())
    if (c.shape.rank() >= 1 && c.shape.numel() > 0) shapes.push_back(c);
  shapes.push_back({"empty_rows", {0, 5}});
  return shapes;
}

std::vector<Tensor> norm_inputs(const ShapeClass& s, bool bias) {
  std::vector<Tensor> inputs = {random(s, 1), random(Shape{s.shape.cols()}, 2, 0.5, 1.5)};
  if (bias) inputs.push_back(random(Shape{s.shape.cols()}, 3));
  return inputs;
}

}  // namespace

std::vector<Case> row_norm_cases() {
  std::vector<Case> cases;
  for (const ShapeClass& s : with_channels()) {
    const std::int64_t cols = s.shape.cols();
    const auto row = [cols](std::int64_t i) { return i / cols; };
    const bool shows = s.shape.numel() > 0;
    cases.push_back(
        {.info = &ops::LayerNorm::info,
         .name = s.name,
         .inputs = norm_inputs(s, true),
         .run = [](const std::vector<Variable>& x) { return layer_norm(x[0], x[1], x[2], kEps); },
         .reference = [row](const std::vector<Array>& in) { return normalized(in[0], &in[1], &in[2], true, row); },
         .nan_must_show = shows});
    cases.push_back(
        {.info = &ops::RmsNorm::info,
         .name = s.name,
         .inputs = norm_inputs(s, false),
         .run = [](const std::vector<Variable>& x) { return rms_norm(x[0], x[1], kEps); },
         .reference = [row](const std::vector<Array>& in) { return normalized(in[0], &in[1], nullptr, false, row); },
         .nan_must_show = shows});
    // The sum is rounded to its stored dtype before it is normalized.
    const auto sum_of = [](const Array& a, const Array& b) {
      Array h = a;
      for (std::int64_t i = 0; i < a.shape.numel(); ++i) h[i] = a[i] + b[i];
      return h;
    };
    cases.push_back(
        {.info = &ops::AddLayerNorm::info,
         .name = s.name,
         .inputs = {random(s, 1), random(s.shape, 4), random(Shape{cols}, 2, 0.5, 1.5), random(Shape{cols}, 3)},
         .run = [](const std::vector<Variable>& x) { return add_layer_norm(x[0], x[1], x[2], x[3], kEps).y; },
         .reference =
             [row, sum_of](const std::vector<Array>& in) {
               return normalized(sum_of(in[0], in[1]), &in[2], &in[3], true, row);
             },
         .half_roundings = 6,
         .nan_must_show = shows});
    cases.push_back({.info = &ops::AddRmsNorm::info,
                     .name = s.name,
                     .inputs = {random(s, 1), random(s.shape, 4), random(Shape{cols}, 2, 0.5, 1.5)},
                     .run = [](const std::vector<Variable>& x) { return add_rms_norm(x[0], x[1], x[2], kEps).y; },
                     .reference =
                         [row, sum_of](const std::vector<Array>& in) {
                           return normalized(sum_of(in[0], in[1]), &in[2], nullptr, false, row);
                         },
                     .half_roundings = 6,
                     .nan_must_show = shows});
  }
  return cases;
}

/// Returns norm + residual, or its ReLU, given the expected norm.
Expected with_residual(Expected y, const Array& residual, bool relu) {
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] += residual.values[i];
    y.magnitude[i] += std::abs(residual.values[i]);
    if (relu && y.values[i] <= 0) y.values[i] = 0;
  }
  return y;
}

std::vector<Case> group_norm_cases() {
  struct Sizes {
    const char* name;
    Shape shape;
    std::int64_t groups;
    bool slice = false;
  };
  std::vector<Case> cases;
  for (const Sizes& s :
       {Sizes{"one_element", {1, 1}, 1}, Sizes{"two_channels", {1, 2}, 1}, Sizes{"instance", {2, 3, 4}, 4},
        Sizes{"one_group", {2, 3, 4}, 1}, Sizes{"pairs", {2, 5, 6}, 3}, Sizes{"image", {2, 3, 5, 4}, 2},
        Sizes{"odd_image", {1, 7, 9, 15}, 5}, Sizes{"matrix", {5, 8}, 2}, Sizes{"channel_slice", {2, 3, 3, 6}, 3, true},
        Sizes{"tall", {1, 301, 2}, 2}, Sizes{"wide", {2, 3, 130}, 10}, Sizes{"large", {2, 40, 41, 6}, 3}}) {
    const std::int64_t cols = s.shape.cols(), sample = s.shape.numel() / s.shape.dim(0), groups = s.groups;
    const auto norm = [=](const std::vector<Array>& in) {
      return normalized(in[0], &in[1], &in[2], true,
                        [=](std::int64_t i) { return i / sample * groups + i % cols / (cols / groups); });
    };
    std::vector<Tensor> inputs = norm_inputs({s.name, s.shape, s.slice}, true);
    cases.push_back(
        {.info = &ops::GroupNorm::info,
         .name = s.name,
         .inputs = inputs,
         .run =
             [groups](const std::vector<Variable>& x) { return group_norm(x[0], groups, x[1], x[2], {.eps = kEps}); },
         .reference = norm});
    inputs.push_back(random(s.shape, 4));
    cases.push_back(
        {.info = &ops::GroupNorm::info,
         .name = std::string(s.name) + "_residual_relu",
         .inputs = inputs,
         .run =
             [groups](const std::vector<Variable>& x) {
               return group_norm(x[0], groups, x[1], x[2], {.eps = kEps, .relu = true, .residual = x[3]});
             },
         .reference = [norm](const std::vector<Array>& in) { return with_residual(norm(in), in[3], true); }});
  }
  return cases;
}

std::vector<Case> batch_norm_cases() {
  std::vector<Case> cases;
  std::vector<ShapeClass> classes = with_channels();
  classes.push_back({"into_a_slice", {2, 3, 3, 8}});
  for (const ShapeClass& s : classes) {
    if (s.shape.rank() < 2 || s.shape.rows() < 2 || s.shape.cols() == 0) continue;  // refused: one value per channel
    const std::int64_t cols = s.shape.cols();
    const bool into = s.name == std::string("into_a_slice");
    for (const bool relu : {false, true})
      cases.push_back(
          {.info = &ops::BatchNorm::info,
           .name = std::string(s.name) + (relu ? "_residual_relu" : ""),
           .inputs = {random(s, 1), random(Shape{cols}, 2, 0.5, 1.5), random(Shape{cols}, 3), random(s.shape, 4)},
           .run =
               [relu, into, cols](const std::vector<Variable>& x) {
                 ChannelNormOptions options{.eps = kEps, .relu = relu, .residual = x[3]};
                 if (into) options.into = {std::make_shared<ops::ConcatBuffer>(2 * cols), cols};
                 return batch_norm(x[0], x[1], x[2], options).y;
               },
           .reference =
               [cols, relu](const std::vector<Array>& in) {
                 return with_residual(
                     normalized(in[0], &in[1], &in[2], true, [cols](std::int64_t i) { return i % cols; }), in[3], relu);
               }});
  }
  return cases;
}

}  // namespace binade::conformance
