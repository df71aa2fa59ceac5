#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/pool.h"
#include "binade/core/ops/avg_pool2d.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/upsample.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

struct ConvSizes {
  const char* name;
  Shape x, w;
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1, output_padding = 0;
  bool slice = false;
  bool into = false;  // y is written to the last channels of an output view with twice as many
};

std::int64_t at(const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return ((a * s.dim(1) + b) * s.dim(2) + c) * s.dim(3) + d;
}

/// Loops over all pairs of a pixel of the smaller image and a filter position. A convolution reads the pixel of the
/// larger image there; a transposed convolution adds to it.
Expected conv_reference(const ConvSizes& s, const Shape& y_shape, const Array& x, const Array& w, const Array& bias,
                        bool transposed) {
  const std::size_t n = static_cast<std::size_t>(y_shape.numel());
  Expected y{std::vector<double>(n), std::vector<double>(n, 2.0), std::vector<double>(n), std::vector<bool>(n)};
  const auto add = [&](std::int64_t i, double a, double b) {
    const std::size_t k = static_cast<std::size_t>(i);
    y.values[k] += a * b;
    y.magnitude[k] += std::abs(a * b);
    y.terms[k] += 1;
  };
  const std::int64_t channels = x.shape.dim(3), filters = y_shape.dim(3);
  const std::int64_t in_group = channels / s.groups, out_group = filters / s.groups;
  const Shape& small = transposed ? x.shape : y_shape;  // one step in `small` is `stride` steps in `wide`
  const Shape& wide = transposed ? y_shape : x.shape;
  // Called if filter position (r, t) of result pixel (p, q) is in the padding. An implementation may or may not
  // multiply the zeros of the padding by the filter, so the result may be NaN for a non-finite weight.
  const auto leave_open = [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t r, std::int64_t t) {
    for (std::int64_t k = 0; k < filters; ++k)
      for (std::int64_t c = 0; c < in_group; ++c) {
        const std::int64_t i = transposed ? at(w.shape, k / out_group * in_group + c, r, t, k % out_group)
                                          : at(w.shape, k, r, t, c);
        if (!std::isfinite(w[i])) y.open[static_cast<std::size_t>(at(y_shape, b, p, q, k))] = true;
      }
  };
  for (std::int64_t b = 0; b < x.shape.dim(0); ++b)
    for (std::int64_t p = 0; p < small.dim(1); ++p)
      for (std::int64_t q = 0; q < small.dim(2); ++q)
        for (std::int64_t r = 0; r < w.shape.dim(1); ++r)
          for (std::int64_t t = 0; t < w.shape.dim(2); ++t) {
            const std::int64_t h = p * s.stride - s.padding + r * s.dilation,
                               v = q * s.stride - s.padding + t * s.dilation;
            if (h < 0 || h >= wide.dim(1) || v < 0 || v >= wide.dim(2)) {
              if (!transposed) leave_open(b, p, q, r, t);
              continue;
            }
            for (std::int64_t k = 0; k < filters; ++k)
              for (std::int64_t c = k / out_group * in_group; c < (k / out_group + 1) * in_group; ++c) {
                if (transposed)
                  add(at(y_shape, b, h, v, k), x[at(x.shape, b, p, q, c)], w[at(w.shape, c, r, t, k % out_group)]);
                else
                  add(at(y_shape, b, p, q, k), x[at(x.shape, b, h, v, c)], w[at(w.shape, k, r, t, c % in_group)]);
              }
          }
  for (std::int64_t i = 0; i < y_shape.numel(); ++i) add(i, 1, bias[i % filters]);
  if (!transposed || std::ranges::all_of(w.values, [](double v) { return std::isfinite(v); })) return y;
  for (std::int64_t b = 0; b < x.shape.dim(0); ++b)
    for (std::int64_t h = 0; h < wide.dim(1); ++h)
      for (std::int64_t v = 0; v < wide.dim(2); ++v)
        for (std::int64_t r = 0; r < w.shape.dim(1); ++r)
          for (std::int64_t t = 0; t < w.shape.dim(2); ++t) {
            const std::int64_t p = h + s.padding - r * s.dilation, q = v + s.padding - t * s.dilation;
            if (p % s.stride != 0 || q % s.stride != 0) continue;
            if (p < 0 || p / s.stride >= small.dim(1) || q < 0 || q / s.stride >= small.dim(2))
              leave_open(b, h, v, r, t);
          }
  return y;
}

struct PoolSizes {
  const char* name;
  ShapeClass x;
  std::int64_t kernel, stride, padding = 0;
  bool include_pad = true;
};
const std::vector<PoolSizes>& pools() {
  static const std::vector<PoolSizes> all = {
      {"one_pixel", {"", {1, 1, 1, 1}}, 1, 1},
      {"one_window", {"", {1, 2, 2, 1}}, 2, 2},
      {"halves", {"", {2, 4, 6, 3}}, 2, 2},
      {"odd_rest", {"", {2, 5, 7, 3}}, 2, 2},
      {"overlap", {"", {1, 7, 6, 2}}, 3, 1},
      {"padded", {"", {2, 6, 5, 3}}, 3, 2, 1},
      {"padded_inside", {"", {2, 6, 5, 3}}, 3, 2, 1, false},
      {"gaps", {"", {1, 9, 9, 2}}, 2, 3},
      {"row", {"", {1, 2, 19, 4}}, 2, 2},
      {"channel_slice", {"", {2, 4, 4, 6}, true}, 2, 2},
      {"many_channels", {"", {1, 4, 4, 67}}, 2, 2},
      {"large", {"", {2, 34, 38, 9}}, 2, 2},
  };
  return all;
}

template <class F>
void for_windows(const PoolSizes& s, const Shape& x, F&& body) {
  const std::int64_t height = (x.dim(1) + 2 * s.padding - s.kernel) / s.stride + 1,
                     width = (x.dim(2) + 2 * s.padding - s.kernel) / s.stride + 1;
  for (std::int64_t b = 0; b < x.dim(0); ++b)
    for (std::int64_t p = 0; p < height; ++p)
      for (std::int64_t q = 0; q < width; ++q)
        for (std::int64_t c = 0; c < x.dim(3); ++c) {
          std::vector<std::int64_t> inside;
          for (std::int64_t i = p * s.stride - s.padding; i < p * s.stride - s.padding + s.kernel; ++i)
            for (std::int64_t j = q * s.stride - s.padding; j < q * s.stride - s.padding + s.kernel; ++j)
              if (i >= 0 && i < x.dim(1) && j >= 0 && j < x.dim(2)) inside.push_back(at(x, b, i, j, c));
          body(inside);
        }
}

/// Returns the weight of input position i in output position o, along one dimension.
double tap(UpsampleMode mode, std::int64_t i, std::int64_t o, std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  if (mode == UpsampleMode::kNearest)
    return i == static_cast<std::int64_t>(std::floor(static_cast<double>(o) * scale)) ? 1 : 0;
  const double u = std::max(0.0, (static_cast<double>(o) + 0.5) * scale - 0.5);
  const std::int64_t low = std::min(static_cast<std::int64_t>(u), in - 1), high = std::min(low + 1, in - 1);
  const double f = u - std::floor(u);
  return (i == low ? 1 - f : 0) + (i == high ? f : 0);
}

}  // namespace

std::vector<Case> conv_cases() {
  std::vector<Case> cases;
  for (const ConvSizes& s :
       {ConvSizes{"one_element", {1, 1, 1, 1}, {1, 1, 1, 1}}, ConvSizes{"pointwise", {2, 3, 5, 4}, {6, 1, 1, 4}},
        ConvSizes{"three_by_three", {2, 6, 5, 3}, {4, 3, 3, 3}},
        ConvSizes{"same_size", {2, 6, 5, 3}, {4, 3, 3, 3}, 1, 1},
        ConvSizes{"strided", {1, 9, 8, 3}, {5, 3, 3, 3}, 2, 1},
        ConvSizes{"dilated", {1, 9, 9, 2}, {3, 3, 3, 2}, 1, 2, 2},
        ConvSizes{"grouped", {2, 5, 5, 6}, {4, 3, 3, 3}, 1, 1, 1, 2},
        ConvSizes{"depthwise", {1, 6, 6, 5}, {5, 3, 3, 1}, 1, 1, 1, 5},
        ConvSizes{"row_filter", {1, 4, 11, 2}, {3, 1, 5, 2}},
        ConvSizes{"first_layer", {1, 12, 12, 1}, {16, 3, 3, 1}, 1, 1},
        ConvSizes{"channel_slice", {2, 5, 5, 6}, {4, 3, 3, 6}, 1, 1, 1, 1, 0, true},
        ConvSizes{"odd_channels", {1, 5, 7, 33}, {35, 3, 3, 33}, 1, 1},
        ConvSizes{"large", {2, 19, 17, 17}, {16, 3, 3, 17}, 1, 1}}) {
    const ops::Conv2d::Params p{.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups};
    cases.push_back({.info = &ops::Conv2d::info,
                     .name = s.name,
                     .inputs = {s.slice ? random_slice(s.x, 1) : random(s.x, 1), random(s.w, 2, -1, 1),
                                random(Shape{s.w.dim(0)}, 3)},
                     .run = [p](const std::vector<Variable>& x) { return conv2d(x[0], x[1], x[2], p); },
                     .reference =
                         [s, p](const std::vector<Array>& in) {
                           return conv_reference(s, ops::Conv2d::output_shape(s.x, s.w, p), in[0], in[1], in[2], false);
                         }});
  }
  return cases;
}

std::vector<Case> conv_transpose_cases() {
  std::vector<Case> cases;
  for (const ConvSizes& s :
       {ConvSizes{"one_element", {1, 1, 1, 1}, {1, 1, 1, 1}}, ConvSizes{"pointwise", {2, 3, 5, 4}, {4, 1, 1, 6}},
        ConvSizes{"doubling", {2, 3, 4, 6}, {6, 2, 2, 3}, 2}, ConvSizes{"doubling_odd", {1, 5, 3, 7}, {7, 2, 2, 5}, 2},
        ConvSizes{"three_by_three", {2, 4, 5, 3}, {3, 3, 3, 4}}, ConvSizes{"padded", {2, 4, 5, 3}, {3, 3, 3, 4}, 1, 1},
        ConvSizes{"strided", {1, 4, 4, 3}, {3, 3, 3, 5}, 2, 1},
        ConvSizes{"output_padding", {1, 4, 4, 3}, {3, 3, 3, 5}, 2, 1, 1, 1, 1},
        ConvSizes{"gaps", {1, 3, 3, 2}, {2, 2, 2, 3}, 3}, ConvSizes{"dilated", {1, 4, 4, 2}, {2, 3, 3, 3}, 1, 1, 2},
        ConvSizes{"grouped", {2, 3, 3, 6}, {6, 2, 2, 2}, 2, 0, 1, 2},
        ConvSizes{"channel_slice", {2, 3, 3, 6}, {6, 2, 2, 3}, 2, 0, 1, 1, 0, true},
        ConvSizes{"into_a_slice", {2, 3, 3, 6}, {6, 2, 2, 8}, 2, 0, 1, 1, 0, false, true},
        ConvSizes{"large", {2, 9, 11, 33}, {33, 2, 2, 17}, 2}}) {
    const ops::ConvTranspose2d::Params p{.stride = s.stride,
                                         .padding = s.padding,
                                         .output_padding = s.output_padding,
                                         .dilation = s.dilation,
                                         .groups = s.groups};
    cases.push_back({.info = &ops::ConvTranspose2d::info,
                     .name = s.name,
                     .inputs = {s.slice ? random_slice(s.x, 1) : random(s.x, 1), random(s.w, 2, -1, 1),
                                random(Shape{s.w.dim(3) * s.groups}, 3)},
                     .run =
                         [p, into = s.into](const std::vector<Variable>& x) {
                           ops::ConvTranspose2d::Params params = p;
                           const std::int64_t channels = x[1].dim(3);
                           if (into) params.into = {std::make_shared<ops::ConcatBuffer>(2 * channels), channels};
                           return conv_transpose2d(x[0], x[1], x[2], params);
                         },
                     .reference =
                         [s, p](const std::vector<Array>& in) {
                           return conv_reference(s, ops::ConvTranspose2d::output_shape(s.x, s.w, p), in[0], in[1],
                                                 in[2], true);
                         }});
  }
  return cases;
}

std::vector<Case> pool_cases() {
  std::vector<Case> cases;
  for (const PoolSizes& s : pools()) {
    const PoolOptions options{
        .kernel = s.kernel, .stride = s.stride, .padding = s.padding, .count_include_pad = s.include_pad};
    const bool sees_all = s.stride <= s.kernel && (s.x.shape.dim(1) + 2 * s.padding - s.kernel) % s.stride == 0 &&
                          (s.x.shape.dim(2) + 2 * s.padding - s.kernel) % s.stride == 0;
    cases.push_back({.info = &ops::MaxPool2d::info,
                     .name = s.name,
                     .inputs = {random(s.x, 1)},
                     .run = [options](const std::vector<Variable>& x) { return max_pool2d(x[0], options); },
                     .reference =
                         [s](const std::vector<Array>& in) {
                           Expected y;
                           for_windows(s, in[0].shape, [&](const std::vector<std::int64_t>& window) {
                             double best = -INFINITY;
                             for (const std::int64_t i : window)
                               if (in[0][i] > best || std::isnan(in[0][i])) best = std::isnan(best) ? best : in[0][i];
                             y.values.push_back(best);
                           });
                           return y;
                         },
                     .nan_must_show = sees_all});
    Case with_indices = cases.back();
    with_indices.info = &ops::MaxPool2dIndices::info;
    with_indices.run = [options](const std::vector<Variable>& x) {
      return max_pool2d_with_indices(x[0], options).values;
    };
    cases.push_back(std::move(with_indices));
    cases.push_back({.info = &ops::AvgPool2d::info,
                     .name = s.name,
                     .inputs = {random(s.x, 2)},
                     .run = [options](const std::vector<Variable>& x) { return avg_pool2d(x[0], options); },
                     .reference =
                         [s](const std::vector<Array>& in) {
                           Expected y;
                           for_windows(s, in[0].shape, [&](const std::vector<std::int64_t>& window) {
                             const double n = s.include_pad ? static_cast<double>(s.kernel * s.kernel)
                                                            : static_cast<double>(window.size());
                             double sum = 0, magnitude = 0;
                             for (const std::int64_t i : window)
                               sum += in[0][i] / n, magnitude += std::abs(in[0][i]) / n;
                             y.values.push_back(sum);
                             y.magnitude.push_back(magnitude);
                             y.terms.push_back(n);
                           });
                           return y;
                         },
                     .nan_must_show = sees_all});
  }
  return cases;
}

std::vector<Case> upsample_cases() {
  struct Sizes {
    const char* name;
    ShapeClass x;
    std::int64_t height, width;
  };
  std::vector<Case> cases;
  for (const Sizes& s :
       {Sizes{"one_pixel", {"", {1, 1, 1, 1}}, 1, 1}, Sizes{"from_one_pixel", {"", {1, 1, 1, 3}}, 4, 5},
        Sizes{"same", {"", {2, 3, 4, 2}}, 3, 4}, Sizes{"doubling", {"", {2, 3, 4, 3}}, 6, 8},
        Sizes{"tripling", {"", {1, 3, 2, 5}}, 9, 6}, Sizes{"odd", {"", {1, 5, 7, 2}}, 8, 11},
        Sizes{"shrinking", {"", {1, 8, 9, 2}}, 4, 3}, Sizes{"one_row", {"", {2, 1, 6, 3}}, 1, 13},
        Sizes{"channel_slice", {"", {2, 3, 3, 6}, true}, 6, 6}, Sizes{"many_channels", {"", {1, 2, 2, 67}}, 4, 4},
        Sizes{"tall", {"", {1, 17, 1, 2}}, 34, 1}, Sizes{"large", {"", {2, 7, 9, 9}}, 14, 18}})
    for (const UpsampleMode mode : {UpsampleMode::kNearest, UpsampleMode::kBilinear})
      cases.push_back(
          {.info = &ops::Upsample::info,
           .name = std::string(s.name) + (mode == UpsampleMode::kNearest ? "_nearest" : "_bilinear"),
           .inputs = {random(s.x, 1)},
           .run = [s, mode](const std::vector<Variable>& x) { return upsample_to(x[0], s.height, s.width, mode); },
           .reference =
               [s, mode](const std::vector<Array>& in) {
                 const Shape& x = in[0].shape;
                 Expected y;
                 for (std::int64_t b = 0; b < x.dim(0); ++b)
                   for (std::int64_t p = 0; p < s.height; ++p)
                     for (std::int64_t q = 0; q < s.width; ++q)
                       for (std::int64_t c = 0; c < x.dim(3); ++c) {
                         double sum = 0, magnitude = 0;
                         for (std::int64_t i = 0; i < x.dim(1); ++i)
                           for (std::int64_t j = 0; j < x.dim(2); ++j) {
                             const double weight = tap(mode, i, p, x.dim(1), s.height) *
                                                   tap(mode, j, q, x.dim(2), s.width);
                             if (weight == 0) continue;
                             sum += weight * in[0][at(x, b, i, j, c)];
                             magnitude += weight * std::abs(in[0][at(x, b, i, j, c)]);
                           }
                         y.values.push_back(sum);
                         y.magnitude.push_back(magnitude);
                         y.terms.push_back(8);
                       }
                 return y;
               },
           .nan_must_show = std::string(s.name) != "shrinking"});
  return cases;
}

}  // namespace binade::conformance
