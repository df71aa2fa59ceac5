#include "binade/io/onnx/nodes/windows.h"

#include <algorithm>

namespace binade::onnx {

std::vector<Window> windows_of(const Node& node, const Variable& x, const std::vector<std::int64_t>& kernel) {
  const std::size_t count = kernel.size();
  const std::vector<std::int64_t> strides = node.integers("strides", std::vector<std::int64_t>(count, 1)),
                                  dilations = node.integers("dilations", std::vector<std::int64_t>(count, 1)),
                                  pads = node.integers("pads", std::vector<std::int64_t>(2 * count, 0));
  const std::string automatic = node.text("auto_pad", "NOTSET");
  unsupported_if(count == 0, "attribute kernel_shape is missing");
  unsupported_if(count + 2 != static_cast<std::size_t>(rank_of(x)), "a kernel of another rank than the input");
  check_count("strides", strides.size(), count);
  check_count("dilations", dilations.size(), count);
  check_count("pads", pads.size(), 2 * count);
  std::vector<Window> windows(count);
  for (std::size_t i = 0; i < count; ++i) {
    Window& w = windows[i];
    w = {.kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const auto in_range = [&](std::int64_t v, std::int64_t least) { return v >= least && v <= kMost; };
    unsupported_if(!in_range(w.kernel, 1) || !in_range(w.stride, 1) || !in_range(w.dilation, 1) ||
                       !in_range(pads[i], -kMost) || !in_range(pads[i + count], -kMost),
                   "a kernel, stride, dilation or padding out of range");
    const std::int64_t extent = x.dim(static_cast<int>(i) + 2);
    if (automatic.starts_with("SAME")) {
      const std::int64_t total = std::max<std::int64_t>(0, ((extent + w.stride - 1) / w.stride - 1) * w.stride +
                                                               w.covered() - extent);
      w.before = automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
      w.after = total - w.before;
    } else if (automatic == "NOTSET") {
      w.before = pads[i];
      w.after = pads[i + count];
    }
    // `room` is negative for an input that is smaller than a window; `rest` is not.
    const std::int64_t room = extent + w.before + w.after - w.covered(), rest = (room % w.stride + w.stride) % w.stride;
    // A window that would start in the padding after the input does not count.
    if (node.integer("ceil_mode", 0) != 0 && rest != 0 && room - rest + w.stride < extent + w.before)
      w.beyond = w.stride - rest;
  }
  return windows;
}

Variable padded(const Variable& x, const std::vector<Window>& windows, double value, bool whole) {
  std::vector<std::int64_t> padding;
  for (std::size_t i = windows.size(); i-- > 0;)
    padding.insert(padding.end(), {windows[i].before, windows[i].after + (whole ? windows[i].beyond : 0)});
  return std::all_of(padding.begin(), padding.end(), [](std::int64_t p) { return p == 0; })
             ? x
             : pad(x, padding, PadMode::kConstant, value);
}

Variable conv(const Node& node, const Variable& x, const Variable& w, const Variable& bias) {
  std::vector<std::int64_t> kernel = dims_of(w);
  unsupported_if(kernel.size() < 3, "a filter without extents");
  kernel.erase(kernel.begin(), kernel.begin() + 2);
  std::vector<Window> windows = windows_of(node, x, kernel);
  const std::int64_t groups = node.integer("group", 1);
  Variable input = x;
  if (!std::all_of(windows.begin(), windows.end(), [](const Window& v) { return v.symmetric(); })) {
    input = padded(x, windows, 0);
    for (Window& v : windows) v.before = v.after = v.beyond = 0;
  }
  const Variable a = channels_last(input), b = channels_last(w);
  const auto stride = [](const Window& v) { return v.stride; };
  const auto padding = [](const Window& v) { return v.before; };
  const auto dilation = [](const Window& v) { return v.dilation; };
  switch (windows.size()) {
    case 1:
      return channels_first(conv1d(a, b, bias,
                                   {.stride = windows[0].stride,
                                    .padding = windows[0].before,
                                    .dilation = windows[0].dilation,
                                    .groups = groups}));
    case 2:
      return channels_first(conv2d(a, b, bias,
                                   {.stride = extent2(windows, stride),
                                    .padding = extent2(windows, padding),
                                    .dilation = extent2(windows, dilation),
                                    .groups = groups}));
    case 3:
      return channels_first(conv3d(a, b, bias,
                                   {.stride = extent3(windows, stride),
                                    .padding = extent3(windows, padding),
                                    .dilation = extent3(windows, dilation),
                                    .groups = groups}));
    default: unsupported("a convolution of this rank");
  }
}

}  // namespace binade::onnx
