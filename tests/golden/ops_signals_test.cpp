#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "binade/autograd/functions/activations.h"
#include "binade/autograd/functions/fft.h"
#include "binade/autograd/functions/images.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/sampling.h"
#include "binade/core/make.h"
#include "tests/golden/op_case.h"

/// Fourier transforms, windows, resizing, sampling and pooling with indices compared with PyTorch's
/// (golden_signals.py).
namespace binade::golden {
namespace {

template <class T>
T one_of(const std::map<std::string, T>& names, const std::string& name) {
  const auto found = names.find(name);
  EXPECT_NE(found, names.end()) << name;
  return found->second;
}
FftNorm norm_of(const Case& c) {
  return one_of<FftNorm>({{"backward", FftNorm::kBackward}, {"ortho", FftNorm::kOrtho}, {"forward", FftNorm::kForward}},
                         c.text("norm"));
}
std::vector<int> axes_of(const Case& c) {
  std::vector<int> axes;
  for (const std::int64_t axis : c.integers("axes")) axes.push_back(static_cast<int>(axis));
  return axes;
}
Extent2 extent2(const Case& c, const std::string& key) { return {c.integers(key)[0], c.integers(key)[1]}; }
Extent3 extent3(const Case& c, const std::string& key) {
  const std::vector<std::int64_t> list = c.integers(key);
  return {list[0], list[1], list[2]};
}

Function along_axis(Variable (*f)(const Variable&, std::int64_t, int, FftNorm)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    return {{"y", f(in["x"], c.integer("n"), static_cast<int>(c.integer("axis")), norm_of(c))}};
  };
}
Function of_images(Variable (*f)(const Variable&, Extent2, FftNorm)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    return {{"y", f(in["x"], extent2(c, "size"), FftNorm::kBackward)}};
  };
}
Function along_axes(Variable (*f)(const Variable&, const std::vector<std::int64_t>&, const std::vector<int>&,
                                  FftNorm)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    std::vector<std::int64_t> sizes = c.integers("sizes");
    if (sizes == std::vector<std::int64_t>{0}) sizes.clear();
    return {{"y", f(in["x"], sizes, axes_of(c), FftNorm::kBackward)}};
  };
}
Function shifted(Variable (*f)(const Variable&, const std::vector<int>&)) {
  return [=](const Case& c, const Inputs& in) -> Outputs { return {{"y", f(in["x"], axes_of(c))}}; };
}

StftOptions stft_options(const Case& c) {
  return {.n_fft = c.integer("n_fft"),
          .hop_length = c.integer("hop"),
          .win_length = c.integer("win"),
          .center = c.flag("center"),
          .pad_mode = one_of<PadMode>(
              {{"reflect", PadMode::kReflect}, {"constant", PadMode::kConstant}, {"replicate", PadMode::kReplicate}},
              c.text("mode")),
          .normalized = c.flag("normalized"),
          .onesided = c.flag("onesided")};
}

Function window(Tensor (*f)(std::int64_t n, bool periodic, DType dtype, Device device)) {
  return [=](const Case& c, const Inputs&) -> Outputs {
    return {{"y", f(c.integer("n"), c.flag("periodic"), DType::f64, Device::cpu())}};
  };
}
Function frequencies(Tensor (*f)(std::int64_t n, double spacing, DType dtype, Device device)) {
  return [=](const Case& c, const Inputs&) -> Outputs {
    return {{"y", f(c.integer("n"), 0.25, DType::f64, Device::cpu())}};
  };
}

InterpolateOptions interpolate_options(const Case& c) {
  InterpolateOptions o{.mode = one_of<UpsampleMode>({{"nearest", UpsampleMode::kNearest},
                                                     {"nearest-exact", UpsampleMode::kNearestExact},
                                                     {"linear", UpsampleMode::kLinear},
                                                     {"bilinear", UpsampleMode::kBilinear},
                                                     {"trilinear", UpsampleMode::kTrilinear},
                                                     {"bicubic", UpsampleMode::kBicubic},
                                                     {"area", UpsampleMode::kArea}},
                                                    c.text("mode")),
                       .align_corners = c.flag("corners"),
                       .antialias = c.flag("antialias")};
  if (c.has_param("size")) o.size = c.integers("size");
  if (!c.has_param("factor")) return o;
  std::istringstream words(c.text("factor"));
  for (std::string word; std::getline(words, word, ',');) o.scale_factor.push_back(std::stod(word));
  return o;
}

GridSampleOptions grid_options(const Case& c) {
  return {.mode = one_of<GridSampleMode>({{"bilinear", GridSampleMode::kBilinear},
                                          {"nearest", GridSampleMode::kNearest},
                                          {"bicubic", GridSampleMode::kBicubic}},
                                         c.text("mode")),
          .padding = one_of<GridSamplePadding>({{"zeros", GridSamplePadding::kZeros},
                                                {"border", GridSamplePadding::kBorder},
                                                {"reflection", GridSamplePadding::kReflection}},
                                               c.text("padding")),
          .align_corners = c.flag("corners")};
}

void read(const Case& c, Pool1dOptions& o) {
  o = {.kernel = c.integer("kernel"), .stride = c.integer("stride"), .padding = c.integer("padding")};
}
void read(const Case& c, PoolOptions& o) {
  o = {.kernel = extent2(c, "kernel"), .stride = extent2(c, "stride"), .padding = extent2(c, "padding")};
}
void read(const Case& c, Pool3dOptions& o) {
  o = {.kernel = extent3(c, "kernel"), .stride = extent3(c, "stride"), .padding = extent3(c, "padding")};
}
template <class Options>
Options options_of(const Case& c) {
  Options o;
  read(c, o);
  return o;
}

template <class Options>
Function with_indices(MaxPoolResult (*f)(const Variable&, const Options&)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    const auto [values, indices] = f(in["x"], options_of<Options>(c));
    return {{"y", values}, {"indices", indices}};
  };
}
template <class Options>
Function power(Variable (*f)(const Variable&, double, const Options&)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    Options o = options_of<Options>(c);
    o.padding = 0;
    return {{"y", f(in["x"], c.number("p"), o)}};
  };
}

TEST(GoldenOps, SignalsMatchPyTorch) {
  check_family(
      "signals",
      {
          {"fft", along_axis(fft)},
          {"ifft", along_axis(ifft)},
          {"rfft", along_axis(rfft)},
          {"irfft", along_axis(irfft)},
          {"hfft", along_axis(hfft)},
          {"ihfft", along_axis(ihfft)},
          {"fft2", of_images(fft2)},
          {"ifft2", of_images(ifft2)},
          {"rfft2", of_images(rfft2)},
          {"irfft2", of_images(irfft2)},
          {"fftn", along_axes(fftn)},
          {"ifftn", along_axes(ifftn)},
          {"rfftn", along_axes(rfftn)},
          {"irfftn", along_axes(irfftn)},
          {"complex_mul",
           [](const Case&, const Inputs& in) -> Outputs {
             return {{"y", complex_mul(in["a"], in["b"])}};
           }},
          {"conj",
           [](const Case&, const Inputs& in) -> Outputs {
             return {{"y", conj(in["x"])}};
           }},
          {"complex_abs",
           [](const Case&, const Inputs& in) -> Outputs {
             return {{"y", complex_abs(in["x"])}};
           }},
          {"complex_angle",
           [](const Case&, const Inputs& in) -> Outputs {
             return {{"y", complex_angle(in["x"])}};
           }},
          {"polar",
           [](const Case&, const Inputs& in) -> Outputs {
             return {{"y", polar(in["a"], in["b"])}};
           }},
          {"fftshift", shifted(fftshift)},
          {"ifftshift", shifted(ifftshift)},
          {"stft",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", stft(in["x"], stft_options(c), in["window"])}};
           }},
          {"istft",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", istft(in["x"], stft_options(c), in["window"], c.integer("length"))}};
           }},
          {"hann_window", window(hann_window)},
          {"hamming_window", window([](std::int64_t n, bool periodic, DType dtype, Device device) {
             return hamming_window(n, periodic, 0.54, 0.46, dtype, device);
           })},
          {"blackman_window", window(blackman_window)},
          {"bartlett_window", window(bartlett_window)},
          {"kaiser_window", window([](std::int64_t n, bool periodic, DType dtype, Device device) {
             return kaiser_window(n, periodic, 12, dtype, device);
           })},
          {"fftfreq", frequencies(fftfreq)},
          {"rfftfreq", frequencies(rfftfreq)},
          {"interpolate",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", interpolate(in["x"], interpolate_options(c))}};
           }},
          {"grid_sample",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", grid_sample(in["x"], in["grid"], grid_options(c))}};
           }},
          {"affine_grid",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", affine_grid(in["theta"], c.integers("size"), c.flag("corners"))}};
           }},
          {"max_pool1d_with_indices", with_indices(max_pool1d_with_indices)},
          {"max_pool2d_with_indices", with_indices(max_pool2d_with_indices)},
          {"max_pool3d_with_indices", with_indices(max_pool3d_with_indices)},
          {"max_unpool1d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", max_unpool1d(in["x"], in["indices"], options_of<Pool1dOptions>(c), c.integer("size"))}};
           }},
          {"max_unpool2d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", max_unpool2d(in["x"], in["indices"], options_of<PoolOptions>(c), extent2(c, "size"))}};
           }},
          {"max_unpool3d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", max_unpool3d(in["x"], in["indices"], options_of<Pool3dOptions>(c), extent3(c, "size"))}};
           }},
          {"lp_pool1d", power(lp_pool1d)},
          {"lp_pool2d", power(lp_pool2d)},
          {"lp_pool3d", power(lp_pool3d)},
          {"channel_shuffle",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", channel_shuffle(in["x"], c.integer("groups"))}};
           }},
          {"rrelu",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", rrelu(in["x"], c.number("lower"), c.number("upper"))}};
           }},
      });
}

}  // namespace
}  // namespace binade::golden
