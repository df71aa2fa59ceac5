#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"
#include "tests/core/fenced.h"

namespace binade::cpu {
namespace {

using test::Fenced;

ConvShape shape_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t r,
                   std::int64_t s, std::int64_t stride_y = 1, std::int64_t stride_x = 1, std::int64_t pad_y = 0,
                   std::int64_t pad_x = 0, std::int64_t dilation = 1, std::int64_t groups = 1) {
  ConvShape shape{n, h, w, c, 0, 0, k, r, s, {stride_y, stride_x}, {pad_y, pad_x}, {dilation, dilation}, groups};
  shape.out_height = (h + 2 * pad_y - dilation * (r - 1) - 1) / stride_y + 1;
  shape.out_width = (w + 2 * pad_x - dilation * (s - 1) - 1) / stride_x + 1;
  return shape;
}

const std::vector<ConvShape> kShapes = {
    shape_of(1, 1, 1, 1, 1, 1, 1),
    shape_of(2, 5, 7, 3, 4, 1, 1),
    shape_of(2, 6, 5, 3, 4, 3, 3, 1, 1, 1, 1),
    shape_of(1, 9, 17, 8, 33, 3, 3, 1, 1, 1, 1),
    shape_of(1, 4, 30, 33, 17, 3, 3, 1, 1, 1, 1),
    shape_of(3, 7, 6, 5, 6, 3, 3, 2, 2, 1, 1),
    shape_of(1, 8, 7, 2, 3, 2, 3, 2, 1, 0, 1),
    shape_of(1, 8, 8, 2, 40, 3, 3, 1, 1, 2, 2, 2),
    shape_of(2, 5, 5, 4, 6, 3, 3, 1, 1, 1, 1, 1, 2),
    shape_of(1, 6, 6, 4, 4, 3, 3, 1, 1, 1, 1, 1, 4),
    shape_of(1, 9, 9, 6, 3, 5, 5, 3, 3, 2, 2, 1, 3),
    shape_of(2, 1, 1, 3, 2, 3, 3, 1, 1, 1, 1),
    shape_of(1, 6, 8, 9, 5, 2, 2, 2, 2),
    shape_of(1, 5, 5, 3, 2, 2, 2, 3, 3),  // no filter position reaches some pixels
    shape_of(1, 4, 4, 200, 40, 3, 3, 1, 1, 1, 1),
    shape_of(2, 40, 40, 5, 3, 3, 3, 1, 1, 1, 1),
    shape_of(1, 190, 190, 8, 2, 2, 2),             // the filters read more values than the kernel gathers at once
    shape_of(1, 5, 32, 20, 33, 3, 3, 1, 1, 1, 1),  // whole groups of pairs, for bf16
    shape_of(1, 6, 64, 9, 5, 3, 5, 2, 1, 1, 2),
    shape_of(1, 7, 32, 10, 4, 3, 3, 1, 1, 2, 2, 2),
    shape_of(2, 4, 34, 9, 4, 2, 3, 1, 1, 0, 0),
    shape_of(0, 4, 4, 2, 2, 3, 3, 1, 1, 1, 1),
};

/// Calls f(index in x, index in w, index in y) for every product of the convolution, in arrays with the given pitches.
template <class F>
void for_products(const ConvShape& s, std::int64_t x_pitch, std::int64_t y_pitch, F&& f) {
  const std::int64_t channels = s.channels / s.groups, filters = s.filters / s.groups;
  for (std::int64_t n = 0; n < s.images; ++n)
    for (std::int64_t p = 0; p < s.out_height; ++p)
      for (std::int64_t q = 0; q < s.out_width; ++q)
        for (std::int64_t k = 0; k < s.filters; ++k)
          for (std::int64_t r = 0; r < s.filter_height; ++r)
            for (std::int64_t t = 0; t < s.filter_width; ++t) {
              const std::int64_t y = p * s.stride[0] - s.padding[0] + r * s.dilation[0];
              const std::int64_t x = q * s.stride[1] - s.padding[1] + t * s.dilation[1];
              if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
              for (std::int64_t c = 0; c < channels; ++c)
                f(static_cast<std::size_t>(((n * s.height + y) * s.width + x) * x_pitch + k / filters * channels + c),
                  static_cast<std::size_t>(((k * s.filter_height + r) * s.filter_width + t) * channels + c),
                  static_cast<std::size_t>(((n * s.out_height + p) * s.out_width + q) * y_pitch + k));
            }
}

template <class T>
struct Problem {
  explicit Problem(const ConvShape& shape, std::int64_t extra_pitch = 0)
      : s(shape), x_pitch(s.channels + extra_pitch), y_pitch(s.filters + extra_pitch) {
    std::mt19937 generator(17);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (auto [array, size] : {std::pair{&x, s.images * s.height * s.width * x_pitch},
                               std::pair{&w, s.filters * s.filter_height * s.filter_width * (s.channels / s.groups)},
                               std::pair{&gy, s.images * s.out_height * s.out_width * y_pitch}}) {
      array->resize(static_cast<std::size_t>(size));
      for (T& v : *array) v = store<T>(uniform(generator));
    }
  }
  static double value(const Fenced<T>& a, std::size_t i) { return static_cast<double>(load(a[i])); }

  ConvShape s;
  std::int64_t x_pitch, y_pitch;
  Fenced<T> x, w, gy;
};

/// The expected result of one direction (forward or a gradient), and the sum of magnitudes for its error bound.
struct Reference {
  explicit Reference(std::size_t size) : sum(size), magnitude(size), terms(size) {}
  void add(std::size_t i, double product) {
    sum[i] += product;
    magnitude[i] += std::abs(product);
    ++terms[i];
  }
  std::vector<double> sum, magnitude;
  std::vector<int> terms;
};

template <class Out>
void expect_close(const Fenced<Out>& got, const Reference& want, double unit, std::int64_t pitch, std::int64_t used) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (static_cast<std::int64_t>(i) % pitch >= used) continue;
    const double bound = (want.terms[i] + 1) * unit * want.magnitude[i];
    double rounding = 0;
    if (is_half(kDTypeOf<Out>)) {
      const DTypeRange range = range_of(kDTypeOf<Out>);
      rounding = std::ldexp(0.5, std::ilogb(std::max(std::abs(want.sum[i]) + bound, range.smallest_normal)) -
                                     range.mantissa_bits);
    }
    ASSERT_LE(std::abs(static_cast<double>(load(got[i])) - want.sum[i]), bound + rounding) << "at " << i;
  }
}

template <class T, class Out>
void expect_all_directions(const ConvShape& s, std::int64_t extra_pitch) {
  SCOPED_TRACE(fmt::format(
      "x ({}, {}, {}, {}) w ({}, {}, {}) stride {} {} padding {} {} dilation {} groups {} {} -> {} pitch +{}", s.images,
      s.height, s.width, s.channels, s.filters, s.filter_height, s.filter_width, s.stride[0], s.stride[1], s.padding[0],
      s.padding[1], s.dilation[0], s.groups, name_of(kDTypeOf<T>), name_of(kDTypeOf<Out>), extra_pitch));
  const Problem<T> p(s, extra_pitch);
  const double unit = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  Reference y(p.gy.size()), gx(p.x.size()), gw(p.w.size());
  for_products(s, p.x_pitch, p.y_pitch, [&](std::size_t i, std::size_t j, std::size_t k) {
    y.add(k, p.value(p.x, i) * p.value(p.w, j));
    gx.add(i, p.value(p.gy, k) * p.value(p.w, j));
    gw.add(j, p.value(p.gy, k) * p.value(p.x, i));
  });

  Fenced<Compute<T>> bias(static_cast<std::size_t>(s.filters));
  for (std::size_t k = 0; k < bias.size(); ++k) bias[k] = static_cast<Compute<T>>(k) - 1;
  Fenced<Out> result(p.gy.size());
  ConvArgs args{.shape = s,
                .in = kDTypeOf<T>,
                .out = kDTypeOf<Out>,
                .source = p.x.data(),
                .source_pitch = p.x_pitch,
                .filter = p.w.data(),
                .result = result.data(),
                .result_pitch = p.y_pitch};
  level().conv.conv(args);
  expect_close(result, y, unit, p.y_pitch, s.filters);
  args.bias = bias.data();
  level().conv.conv(args);
  for (std::size_t i = 0; i < y.sum.size(); ++i)
    if (static_cast<std::int64_t>(i) % p.y_pitch < s.filters)
      y.add(i, static_cast<double>(i % static_cast<std::size_t>(p.y_pitch)) - 1);
  expect_close(result, y, unit, p.y_pitch, s.filters);

  Fenced<Out> gx_got(p.x.size());
  args.bias = nullptr;
  args.source = p.gy.data();
  args.source_pitch = p.y_pitch;
  args.result = gx_got.data();
  args.result_pitch = p.x_pitch;
  args.transposed = true;
  level().conv.conv(args);
  expect_close(gx_got, gx, unit, p.x_pitch, s.channels);

  Fenced<Compute<T>> gw_got(p.w.size(), Compute<T>(9));
  level().conv.weight_gradient({.shape = s,
                                .in = kDTypeOf<T>,
                                .x = p.x.data(),
                                .x_pitch = p.x_pitch,
                                .gy = p.gy.data(),
                                .gy_pitch = p.y_pitch,
                                .gw = gw_got.data()});
  expect_close(gw_got, gw, unit, 1, 1);
}

class Conv : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    before_ = level().isa;
    select_isa(GetParam());
  }
  void TearDown() override { select_isa(before_); }

 private:
  std::string_view before_;
};
INSTANTIATE_TEST_SUITE_P(Isa, Conv, ::testing::ValuesIn(isa_levels()),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST_P(Conv, ForwardAndGradientsStayWithinTheErrorBound) {
  for (const ConvShape& s : kShapes) {
    expect_all_directions<float, float>(s, 0);
    expect_all_directions<float, float>(s, 3);  // channel slices
    expect_all_directions<bfloat16, bfloat16>(s, 0);
    expect_all_directions<bfloat16, bfloat16>(s, 5);
    expect_all_directions<float16, float16>(s, 0);
    expect_all_directions<double, double>(s, 0);
  }
}

TEST_P(Conv, GivesTheSameBitsForEveryNumberOfThreads) {
  for (const ConvShape& s :
       {shape_of(3, 33, 20, 20, 40, 3, 3, 1, 1, 1, 1), shape_of(2, 8, 8, 130, 140, 3, 3, 1, 1, 1, 1),
        shape_of(2, 70, 60, 1, 20, 3, 3, 1, 1, 1, 1)}) {
    const Problem<float> p(s);
    Fenced<float> first;
    for (int threads : {1, 2, 3, 4, 8}) {
      set_num_threads(threads);
      Fenced<float> all(p.gy.size() + p.x.size() + p.w.size());
      float* y = all.data();
      float* gx = y + p.gy.size();
      float* gw = gx + p.x.size();
      level().conv.conv({.shape = s,
                         .source = p.x.data(),
                         .source_pitch = p.x_pitch,
                         .filter = p.w.data(),
                         .result = y,
                         .result_pitch = p.y_pitch});
      level().conv.conv({.shape = s,
                         .transposed = true,
                         .source = p.gy.data(),
                         .source_pitch = p.y_pitch,
                         .filter = p.w.data(),
                         .result = gx,
                         .result_pitch = p.x_pitch});
      level().conv.weight_gradient(
          {.shape = s, .x = p.x.data(), .x_pitch = p.x_pitch, .gy = p.gy.data(), .gy_pitch = p.y_pitch, .gw = gw});
      if (first.empty()) first = all;
      EXPECT_EQ(first, all) << threads << " threads";
    }
  }
  set_num_threads(0);
}

TEST_P(Conv, NanReachesExactlyThePixelsThatDependOnIt) {
  const ConvShape s = shape_of(1, 6, 9, 3, 20, 3, 3, 1, 1, 1, 1);
  Problem<float> p(s);
  p.x[static_cast<std::size_t>((2 * 9 + 4) * 3 + 1)] = std::numeric_limits<float>::quiet_NaN();
  Fenced<float> y(p.gy.size());
  level().conv.conv({.shape = s,
                     .source = p.x.data(),
                     .source_pitch = 3,
                     .filter = p.w.data(),
                     .result = y.data(),
                     .result_pitch = 20});
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 9; ++column) {
      const bool sees = std::abs(row - 2) <= 1 && std::abs(column - 4) <= 1;
      for (int k = 0; k < 20; ++k)
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>((row * 9 + column) * 20 + k)]), sees);
    }
}

}  // namespace
}  // namespace binade::cpu
