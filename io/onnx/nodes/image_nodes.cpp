#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/io/onnx/nodes/node.h"
#include "binade/io/onnx/nodes/resize.h"
#include "binade/io/onnx/nodes/windows.h"

namespace binade::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

bool dilated(const std::vector<Window>& windows) {
  return std::any_of(windows.begin(), windows.end(), [](const Window& w) { return w.dilation != 1; });
}

/// All windows of x (N, C, …), without padding. New last axes, one per spatial axis, hold the elements of a window.
Variable unfolded(const Variable& x, const std::vector<Window>& w) {
  Variable y = x;
  for (int i = 0; i < static_cast<int>(w.size()); ++i) {
    const Window& v = w[static_cast<std::size_t>(i)];
    y = slice(unfold(y, i + 2, v.covered(), v.stride), -1, 0, v.covered(), v.dilation);
  }
  return y;
}
/// The axes of the result of unfolded() along which the elements of one window lie.
Axes elements(const std::vector<Window>& w) {
  std::vector<int> axes;
  for (int i = 0; i < static_cast<int>(w.size()); ++i) axes.push_back(-1 - i);
  return axes;
}

/// Pooling of x (N, C, …) without padding.
Variable pooled(const Variable& x, const std::vector<Window>& w, bool average) {
  const auto kernel = [](const Window& v) { return v.kernel; };
  const auto stride = [](const Window& v) { return v.stride; };
  const Variable a = channels_last(x);
  unsupported_if(w.empty() || w.size() > 3, "pooling of this rank");
  if (w.size() == 1) {
    const Pool1dOptions options{.kernel = w[0].kernel, .stride = w[0].stride};
    return channels_first(average ? avg_pool1d(a, options) : max_pool1d(a, options));
  }
  if (w.size() == 2) {
    const PoolOptions options{.kernel = extent2(w, kernel), .stride = extent2(w, stride)};
    return channels_first(average ? avg_pool2d(a, options) : max_pool2d(a, options));
  }
  const Pool3dOptions options{.kernel = extent3(w, kernel), .stride = extent3(w, stride)};
  return channels_first(average ? avg_pool3d(a, options) : max_pool3d(a, options));
}

/// The averages over windows of x padded with zeros. pad() adds the padding, because it may be asymmetric.
Variable averages(const Variable& x, const std::vector<Window>& w) {
  if (dilated(w)) return mean(unfolded(padded(x, w, 0), w), elements(w));
  return pooled(padded(x, w, 0), w, true);
}

Variable average_pool(const Node& n) {
  const std::vector<Window> w = windows_of(n, n[0], n.integers("kernel_shape"));
  const Variable y = averages(n[0], w), ones = ones_like(n[0].value());
  const bool all_count = n.integer("count_include_pad", 0) != 0;
  const auto is_plain = [&](const Window& v) { return v.beyond == 0 && (all_count || v.before + v.after == 0); };
  if (std::all_of(w.begin(), w.end(), is_plain)) return y;
  if (!all_count) return y / averages(ones, w);  // the share of each window that lies in the image
  std::vector<Window> rest = w;
  for (Window& v : rest) v.before = v.after = 0;
  return y / averages(padded(ones, w, 1, false), rest);
}

/// The largest element of each window, and its position in the whole tensor.
Outputs max_pool_with_positions(const Node& n, const std::vector<Window>& w) {
  const auto plain = [](const Window& v) { return v.symmetric() && v.dilation == 1; };
  unsupported_if(!std::all_of(w.begin(), w.end(), plain) || n.integer("storage_order", 0) != 0,
                 "max_pool2d_with_indices() has no asymmetric padding, dilation or order of columns");
  const auto kernel = [](const Window& v) { return v.kernel; };
  const auto stride = [](const Window& v) { return v.stride; };
  const auto padding = [](const Window& v) { return v.before; };
  const Variable a = channels_last(n[0]);
  MaxPoolResult r;
  if (w.size() == 1)
    r = max_pool1d_with_indices(a, {.kernel = w[0].kernel, .stride = w[0].stride, .padding = w[0].before});
  else if (w.size() == 2)
    r = max_pool2d_with_indices(
        a, {.kernel = extent2(w, kernel), .stride = extent2(w, stride), .padding = extent2(w, padding)});
  else
    r = max_pool3d_with_indices(
        a, {.kernel = extent3(w, kernel), .stride = extent3(w, stride), .padding = extent3(w, padding)});
  const std::int64_t planes = n[0].dim(0) * n[0].dim(1),
                     plane = n[0].shape().numel() / std::max<std::int64_t>(planes, 1);
  Integers dims(static_cast<std::size_t>(rank_of(n[0])), 1);
  dims[0] = n[0].dim(0), dims[1] = n[0].dim(1);
  return {channels_first(r.values), channels_first(r.indices) + reshape(arange(planes) * plane, dims)};
}

Outputs max_pool(const Node& n) {
  const std::vector<Window> w = windows_of(n, n[0], n.integers("kernel_shape"));
  if (n.outputs() > 1) return max_pool_with_positions(n, w);
  const bool floating = is_floating(n[0].dtype());
  const Variable x = padded(floating ? n[0] : cast(n[0], DType::f32), w, -std::numeric_limits<double>::infinity());
  return {like(n[0], dilated(w) ? max(unfolded(x, w), elements(w)) : pooled(x, w, false))};
}

/// The p-th root of the sum of p-th powers. The sum over a window is computed as average times size.
Variable power_pool(const Node& n) {
  const std::vector<Window> w = windows_of(n, n[0], n.integers("kernel_shape"));
  const double p = static_cast<double>(n.integer("p", 2));
  double size = 1;
  for (const Window& v : w) size *= static_cast<double>(v.kernel);
  return pow(averages(pow(abs(n[0]), p), w) * size, 1 / p);
}

Variable max_unpool(const Node& n) {
  const Integers kernel = n.integers("kernel_shape");
  Integers dims = dims_of(n[0]);
  const std::vector<Window> w = windows_of(n, n[0], kernel);
  for (std::size_t i = 0; i < w.size(); ++i)
    dims[i + 2] = (dims[i + 2] - 1) * w[i].stride - w[i].before - w[i].after + w[i].kernel;
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  const Variable y = reshape(scatter(Tensor::zeros({count}, n[0].dtype()), 0, reshape(n[1], {-1}), reshape(n[0], {-1})),
                             dims);
  if (!n.has(2)) return y;
  const Integers wanted = n.list(2);
  check_count("output_shape", wanted.size(), dims.size());
  Integers more;
  for (std::size_t i = dims.size(); i-- > 0;) more.insert(more.end(), {0, wanted[i] - dims[i]});
  return pad(y, more);
}

/// The padding (in `window`) and the output padding (`more`) of one axis of a transposed convolution.
struct Growth {
  Window window{};
  std::int64_t more = 0;
};

std::vector<Growth> growth_of(const Node& n, const Integers& kernel) {
  std::vector<Window> windows = windows_of(n, n[0], kernel);
  const Integers more = n.integers("output_padding", Integers(kernel.size(), 0)), wanted = n.integers("output_shape");
  const std::string automatic = n.text("auto_pad", "NOTSET");
  check_count("output_padding", more.size(), kernel.size());
  if (!wanted.empty()) check_count("output_shape", wanted.size(), kernel.size());
  std::vector<Growth> growth(kernel.size());
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    growth[i] = {windows[i], more[i]};
    Window& w = growth[i].window;
    const std::int64_t extent = n[0].dim(static_cast<int>(i) + 2);
    if (wanted.empty() && !automatic.starts_with("SAME")) continue;
    const std::int64_t out = wanted.empty() ? extent * w.stride : wanted[i];
    const std::int64_t excess = (extent - 1) * w.stride + more[i] + w.covered() - out;
    if (excess < 0) growth[i].more -= excess;
    const std::int64_t cut = std::max<std::int64_t>(excess, 0);
    w.before = automatic == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
    w.after = cut - w.before;
  }
  return growth;
}

Variable conv_transpose(const Node& n) {
  Integers kernel = dims_of(n[1]), cut;
  unsupported_if(kernel.size() < 3 || kernel.size() > 5, "a filter of this rank");
  kernel.erase(kernel.begin(), kernel.begin() + 2);
  std::vector<Growth> growth = growth_of(n, kernel);
  const auto is_symmetric = [](const Growth& g) { return g.window.symmetric(); };
  if (!std::all_of(growth.begin(), growth.end(), is_symmetric))
    for (std::size_t i = growth.size(); i-- > 0;) {
      cut.insert(cut.end(), {-growth[i].window.before, -growth[i].window.after});
      growth[i].window.before = 0;
    }
  const auto of = [&](auto f) {
    Integers values;
    for (const Growth& g : growth) values.push_back(f(g));
    return values;
  };
  const Integers stride = of([](const Growth&g) { return g.window.stride; }),
                 padding = of([](const Growth&g) { return g.window.before; }),
                 dilation = of([](const Growth&g) { return g.window.dilation; }),
                 more = of([](const Growth&g) { return g.more; });
  const std::int64_t groups = n.integer("group", 1);
  const Variable x = channels_last(n[0]), w = channels_last(n[1]);
  const auto two = [](const Integers& v) { return Extent2(v[0], v[1]); };
  const auto three = [](const Integers& v) { return Extent3(v[0], v[1], v[2]); };
  Variable y;
  if (kernel.size() == 1)
    y = conv_transpose1d(x, w, n[2],
                         {.stride = stride[0],
                          .padding = padding[0],
                          .output_padding = more[0],
                          .dilation = dilation[0],
                          .groups = groups});
  else if (kernel.size() == 2)
    y = conv_transpose2d(x, w, n[2],
                         {.stride = two(stride),
                          .padding = two(padding),
                          .output_padding = two(more),
                          .dilation = two(dilation),
                          .groups = groups});
  else
    y = conv_transpose3d(x, w, n[2],
                         {.stride = three(stride),
                          .padding = three(padding),
                          .output_padding = three(more),
                          .dilation = three(dilation),
                          .groups = groups});
  return cut.empty() ? channels_first(y) : pad(channels_first(y), cut);
}

/// A causal convolution of each channel. Its state is the end of its input.
Outputs causal_conv(const Node& n) {
  const std::int64_t channels = n[1].dim(0), before = n[1].dim(2) - 1;
  const Variable past = n.has(3) ? n[3] : Variable(Tensor::zeros({n[0].dim(0), channels, before}, n[0].dtype()));
  const Variable x = concat({past, n[0]}, 2);
  const Variable y = channels_first(conv1d(channels_last(x), channels_last(n[1]), n[2], {.groups = channels}));
  const std::string activation = n.text("activation", "none");
  return {activation == "silu" || activation == "swish" ? silu(y) : y, narrow(x, 2, n[0].dim(2), before)};
}

Variable column_to_image(const Node& n) {
  const Integers size = n.list(1), kernel = n.list(2);
  const std::size_t count = size.size();
  unsupported_if(count != 2, "no fold of volumes");
  check_count("block_shape", kernel.size(), 2);
  const Integers strides = n.integers("strides", {1, 1}), dilations = n.integers("dilations", {1, 1}),
                 pads = n.integers("pads", {0, 0, 0, 0});
  check_count("strides", strides.size(), 2);
  check_count("dilations", dilations.size(), 2);
  check_count("pads", pads.size(), 4);
  unsupported_if(pads[0] != pads[2] || pads[1] != pads[3], "fold2d() has no asymmetric padding");
  const std::int64_t k = kernel[0] * kernel[1];
  const Variable windows = permute(reshape(n[0], {n[0].dim(0), -1, k, n[0].dim(2)}), {0, 3, 2, 1});
  return channels_first(fold2d(flatten(windows, 2), {size[0], size[1]},
                               {.kernel = {kernel[0], kernel[1]},
                                .stride = {strides[0], strides[1]},
                                .padding = {pads[0], pads[1]},
                                .dilation = {dilations[0], dilations[1]}}));
}

/// Maps the points of a grid over [-1, 1] by theta, whose last axis is x, y, (z,) 1.
Variable affine_grid(const Node& n) {
  const Integers size = n.list(1);
  unsupported_if(size.size() != 4 && size.size() != 5, "a size that is neither (N, C, H, W) nor (N, C, D, H, W)");
  std::vector<Variable> steps;
  for (std::size_t i = 2; i < size.size(); ++i) {
    const double edge = n.integer("align_corners", 0) != 0 ? 1 : 1 - 1 / static_cast<double>(size[i]);
    steps.push_back(linspace(-edge, edge, size[i]));
  }
  std::vector<Variable> grid = meshgrid(steps);
  std::reverse(grid.begin(), grid.end());
  grid.push_back(ones_like(grid[0].value()));
  return einsum("...k,nck->n...c", {stack(grid, -1), n[0]});
}

Variable sampled(const Node& n) {
  const std::string mode = n.text("mode", "linear"), padding = n.text("padding_mode", "zeros");
  const GridSampleOptions options{.mode = mode == "nearest"                      ? GridSampleMode::kNearest
                                          : mode == "cubic" || mode == "bicubic" ? GridSampleMode::kBicubic
                                                                                 : GridSampleMode::kBilinear,
                                  .padding = padding == "border"       ? GridSamplePadding::kBorder
                                             : padding == "reflection" ? GridSamplePadding::kReflection
                                                                       : GridSamplePadding::kZeros,
                                  .align_corners = n.integer("align_corners", 0) != 0};
  return channels_first(grid_sample(channels_last(n[0]), n[1], options));
}

/// If `size` is even, ONNX reads one more channel after the center than before it, and Binade the other way round.
Variable normalized_by_neighbors(const Node& n) {
  const std::int64_t size = n.integer("size", 1);
  const Variable x = channels_last(n[0]);
  const auto normed = [&](const Variable& z) {
    return local_response_norm(z, size, n.number("alpha", 1e-4), n.number("beta", 0.75), n.number("bias", 1));
  };
  return channels_first(size % 2 != 0 ? normed(x) : flip(normed(flip(x, {-1})), {-1}));
}

std::vector<int> positions(const Node& n) {
  std::vector<int> axes;
  for (int i = 2; i < rank_of(n[0]); ++i) axes.push_back(i);
  return axes;
}

}  // namespace

Table image_nodes() {
  return {
      {"AffineGrid", one(affine_grid)},
      {"AveragePool", one(average_pool)},
      {"CausalConvWithState", causal_conv},
      {"Col2Im", one(column_to_image)},
      {"Conv", one([](const Node& n) { return conv(n, n[0], n[1], n[2]); })},
      {"ConvTranspose", one(conv_transpose)},
      {"GridSample", one(sampled)},
      {"GlobalAveragePool", one([](const Node& n) { return mean(n[0], positions(n), true); })},
      {"GlobalLpPool",
       one([](const Node& n) { return norm(n[0], static_cast<double>(n.integer("p", 2)), positions(n), true); })},
      {"GlobalMaxPool", one([](const Node& n) { return max(n[0], positions(n), true); })},
      {"LRN", one(normalized_by_neighbors)},
      {"LpPool", one(power_pool)},
      {"MaxPool", max_pool},
      {"MaxUnpool", one(max_unpool)},
      {"Resize", one(resized)},
  };
}

}  // namespace binade::onnx
