#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/gradcheck.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"
#include "binade/nn/activation.h"
#include "binade/nn/pooling.h"
#include "tests/conformance/case.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

// Functions of signals and positions that are composed of ops: every dtype against f64, first and second derivatives,
// bits with any number of threads, round trips, errors. tests/golden compares them with PyTorch's, and the conformance
// cases test the ops.
namespace binade::conformance {
namespace {

using test::error_of;
using Inputs = std::vector<Variable>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> values_of(const Variable& x) { return x.value().to_vector<double>(); }
Tensor on_device(const Tensor& x) { return x.to(tested_device()); }

struct Composed {
  std::string name{};
  std::function<Variable(const Inputs&)> run{};
  std::vector<Shape> shapes{};
  bool keeps_dtype = true;  ///< false: the result of 16-bit inputs is f32
  bool twice = true;        ///< it has second derivatives
};

Variable hann_like(const Variable& x, std::int64_t n) {
  return hann_window(n, true, x.dtype() == DType::f64 ? DType::f64 : DType::f32, x.device()) + 0.125;
}

GridSampleOptions grid(GridSampleMode mode, GridSamplePadding padding, bool corners) {
  return {.mode = mode, .padding = padding, .align_corners = corners};
}

std::vector<Composed> functions() {
  const auto sampled = [](GridSampleMode mode, GridSamplePadding padding, bool corners) {
    return [=](const Inputs& in) { return grid_sample(in[0], in[1] * 0.75, grid(mode, padding, corners)); };
  };
  return {
      {"rfft", [](const Inputs& in) { return rfft(in[0], 0, 1, FftNorm::kOrtho); }, {{2, 8, 3}}, false},
      {"hfft", [](const Inputs& in) { return hfft(in[0], 7, -1, FftNorm::kForward); }, {{2, 4, 2}}, false},
      {"ihfft", [](const Inputs& in) { return ihfft(in[0], 0, -1, FftNorm::kOrtho); }, {{2, 5}}, false},
      {"fft2",
       [](const Inputs& in) {
         return fft2(in[0], {3, 6}, FftNorm::kOrtho);
       },
       {{2, 4, 5, 2}},
       false},
      {"irfft2",
       [](const Inputs& in) {
         return irfft2(in[0], {4, 5}, FftNorm::kOrtho);
       },
       {{2, 4, 3, 2}},
       false},
      {"rfftn",
       [](const Inputs& in) {
         return rfftn(in[0], {}, {2, 0}, FftNorm::kOrtho);
       },
       {{3, 2, 4}},
       false},
      {"stft",
       [](const Inputs& in) {
         return stft(in[0], {.n_fft = 6, .hop_length = 2, .win_length = 5, .normalized = true}, hann_like(in[0], 5));
       },
       {{2, 11}},
       false},
      {"stft_both_sides",
       [](const Inputs& in) {
         return stft(in[0], {.n_fft = 5, .center = false, .normalized = true, .onesided = false});
       },
       {{2, 9}},
       false},
      {"istft",
       [](const Inputs& in) {
         return istft(in[0], {.n_fft = 6, .hop_length = 3, .normalized = true}, hann_like(in[0], 6), 7);
       },
       {{2, 4, 4, 2}},
       false},
      {"complex_mul", [](const Inputs& in) { return complex_mul(in[0], in[1]); }, {{2, 3, 2}, {2, 3, 2}}},
      {"fftshift", [](const Inputs& in) { return fftshift(in[0], {1}); }, {{2, 5, 2}}},
      {"interpolate_1d",
       [](const Inputs& in) { return interpolate(in[0], {.size = {7}, .mode = UpsampleMode::kLinear}); },
       {{2, 4, 3}}},
      {"interpolate_factor",
       [](const Inputs& in) {
         return interpolate(in[0], {.scale_factor = {1.3, 0.6}, .mode = UpsampleMode::kBicubic});
       },
       {{2, 4, 5, 3}}},
      {"interpolate_antialias",
       [](const Inputs& in) {
         return interpolate(in[0], {.size = {2, 6}, .mode = UpsampleMode::kBilinear, .antialias = true});
       },
       {{2, 5, 4, 2}}},
      {"interpolate_3d",
       [](const Inputs& in) {
         return interpolate(in[0], {.size = {3, 2, 4}, .mode = UpsampleMode::kTrilinear, .align_corners = true});
       },
       {{2, 2, 3, 2, 2}}},
      {"interpolate_area",
       [](const Inputs& in) {
         return interpolate(in[0], {.size = {2, 3, 2}, .mode = UpsampleMode::kArea});
       },
       {{2, 3, 2, 4, 2}}},
      {"grid_sample",
       sampled(GridSampleMode::kBilinear, GridSamplePadding::kZeros, false),
       {{2, 4, 5, 3}, {2, 3, 2, 2}}},
      {"grid_sample_reflection",
       sampled(GridSampleMode::kBilinear, GridSamplePadding::kReflection, true),
       {{2, 3, 4, 2}, {2, 2, 3, 2}}},
      {"grid_sample_bicubic",
       sampled(GridSampleMode::kBicubic, GridSamplePadding::kBorder, false),
       {{2, 4, 3, 2}, {2, 2, 3, 2}}},
      {"grid_sample_3d",
       sampled(GridSampleMode::kBilinear, GridSamplePadding::kBorder, true),
       {{2, 2, 3, 4, 2}, {2, 1, 3, 2, 3}}},
      {"affine_grid",
       [](const Inputs& in) {
         return affine_grid(in[0], {2, 3});
       },
       {{2, 2, 3}},
       false},
      {"max_pool_with_indices",
       [](const Inputs& in) { return max_pool2d_with_indices(in[0], {.kernel = 3, .stride = 2, .padding = 1}).values; },
       {{2, 5, 4, 3}},
       true,
       false},
      {"max_unpool3d",
       [](const Inputs& in) {
         const Variable x = in[0];
         std::vector<std::int64_t> index;
         for (std::int64_t i = 0; i < x.value().numel(); ++i) index.push_back(i / 2 % 8 * 8);
         return max_unpool3d(x, on_device(Tensor::from(index, x.shape())), {.kernel = 2});
       },
       {{2, 2, 2, 2, 2}}},
      {"lp_pool1d", [](const Inputs& in) { return lp_pool1d(in[0], 2, {.kernel = 3, .stride = 2}); }, {{2, 7, 3}}},
      {"lp_pool2d",
       [](const Inputs& in) {
         return lp_pool2d(in[0], 3, {.kernel = {2, 1}});
       },
       {{2, 4, 3, 2}}},
      {"channel_shuffle", [](const Inputs& in) { return channel_shuffle(in[0], 3); }, {{2, 3, 6}}},
      {"rrelu", [](const Inputs& in) { return rrelu(in[0]); }, {{3, 5}}},
  };
}

/// Returns inputs in double that `dtype` represents exactly.
std::vector<Tensor> inputs_of(const Composed& c, DType dtype) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i)
    inputs.push_back(random(c.shapes[i], 20 + i).to(dtype).to(DType::f64));
  return inputs;
}

TEST(Signals, AgreeWithDoublePrecisionInEveryDtype) {
  for (const Composed& c : functions())
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Inputs exact, rounded;
      for (const Tensor& x : inputs_of(c, dtype)) {
        exact.emplace_back(x.to(tested_device()));
        rounded.emplace_back(x.to(dtype).to(tested_device()));
      }
      const Tensor want = c.run(exact).value().to(Device::cpu()), got = c.run(rounded).value();
      EXPECT_EQ(got.dtype(), c.keeps_dtype ? dtype : DType::f32);
      ASSERT_EQ(got.shape(), want.shape());
      // A few roundings of numbers up to 8. Rounded grid positions also change values, by up to 4 per pixel of
      // distance.
      const bool moved = c.name.starts_with("grid_sample");
      const double rounding = std::ldexp(moved ? 8.0 : 0.5,
                                         -range_of(c.keeps_dtype ? dtype : DType::f32).mantissa_bits);
      const std::vector<double> values = got.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], want.at(static_cast<std::int64_t>(i)), 8 * rounding) << i;
    }
}

TEST(Signals, HaveTheDerivativesOfTheirFormulasAlsoForChannelSlices) {
  for (const Composed& c : functions())
    for (const bool slices : {false, true}) {
      SCOPED_TRACE(c.name);
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < c.shapes.size(); ++i) {
        const Shape& shape = c.shapes[i];
        const Tensor wide = random(shape.with_dim(-1, shape.cols() + 3), 30 + i);
        inputs.push_back(slices ? wide.channel_slice(1, shape.cols()) : random(shape, 30 + i));
      }
      const GradcheckResult first = gradcheck(c.run, inputs, {.device = tested_device()});
      EXPECT_TRUE(first.passed) << first.message;
      if (!c.twice || slices) continue;
      const GradcheckResult second = gradgradcheck(c.run, inputs,
                                                   {.rtol = 2e-6, .atol = 1e-6, .device = tested_device()});
      EXPECT_TRUE(second.passed) << second.message;
    }
}

TEST(Signals, PassNanOn) {
  for (const Composed& c : functions())
    for (std::size_t bad = 0; bad < c.shapes.size(); ++bad) {
      Inputs in;
      for (const Tensor& x : inputs_of(c, DType::f32)) {
        Tensor odd = x.to(DType::f32);
        // All elements are NaN, because no position of a grid may be near a single pixel.
        if (in.size() == bad) odd.fill(kNaN);
        in.emplace_back(odd.to(tested_device()));
      }
      int odd = 0;
      for (const double v : values_of(c.run(in))) odd += std::isnan(v) ? 1 : 0;
      EXPECT_GT(odd, 0) << c.name;
    }
}

TEST(Signals, HaveTheSameBitsWithAnyNumberOfThreads) {
  for (const Composed& c : functions()) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < c.shapes.size(); ++i)
      inputs.push_back(random(c.shapes[i].with_dim(0, c.name == "rfftn" ? 3 : 40), 40 + i).to(DType::f32));
    test::check_threads([&](const Inputs& in) { return std::vector{c.run(in)}; }, inputs);
  }
}

/// On a CPU, transforms compute in double, and an f32 result is rounded once. The error of double is 2^-52 of the sum
/// of magnitudes for each level, and there are fewer than 64 levels. A GPU adds up to n terms in f32.
TEST(Signals, AFourierTransformIsRoundedOnce) {
  const bool on_cpu = tested_device() == Device::cpu();
  for (const std::int64_t n : {2, 3, 5, 16, 49, 60, 61, 67, 128, 251, 1000}) {
    const Tensor x = random(Shape{n, 2}, static_cast<std::uint64_t>(n)).to(DType::f32);
    const std::vector<double> in = x.to_vector<double>(), out = values_of(fft(on_device(x)));
    std::vector<std::complex<long double>> roots;
    for (std::int64_t k = 0; k < n; ++k)
      roots.push_back(std::polar(1.0L, -2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / n));
    for (std::int64_t k = 0; k < n; ++k) {
      std::complex<long double> sum = 0;
      long double magnitude = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::complex<long double> value(in[static_cast<std::size_t>(2 * j)],
                                              in[static_cast<std::size_t>(2 * j + 1)]);
        sum += value * roots[static_cast<std::size_t>(j * k % n)];
        magnitude += std::abs(value);
      }
      for (int p = 0; p < 2; ++p) {
        const long double want = p == 0 ? sum.real() : sum.imag();
        EXPECT_NEAR(out[static_cast<std::size_t>(2 * k + p)], static_cast<double>(want),
                    static_cast<double>(0x1p-24L * std::abs(want) + (on_cpu ? 0x1p-46L : 0x1p-23L * n) * magnitude))
            << n << " numbers, element " << k;
      }
    }
  }
}

TEST(Signals, InversesReturnTheSignal) {
  const Variable x = on_device(random(Shape{3, 20, 2}, 1));
  const auto same = [](const Variable& a, const Variable& b, const std::string& what) {
    ASSERT_EQ(a.shape(), b.shape()) << what;
    EXPECT_LT(max(abs(a - b)).item(), 1e-12) << what;
  };
  // The imaginary parts of the first and the last number of a half spectrum have no effect.
  const Variable inner = pad(on_device(Tensor::full({18}, 1, DType::f64)), {1, 1});
  for (const FftNorm norm : {FftNorm::kBackward, FftNorm::kOrtho, FftNorm::kForward}) {
    same(ifft(fft(x, 0, 1, norm), 0, 1, norm), x, "fft");
    same(irfft(rfft(x, 0, 1, norm), 0, 1, norm), x, "rfft");
    same(ifft2(fft2(x, 0, norm), 0, norm), x, "fft2");
    same(irfftn(rfftn(x, {}, {0, 1}, norm), {3, 20}, {0, 1}, norm), x, "rfftn");
    same(ihfft(hfft(x, 38, 1, norm), 0, 1, norm), complex(real(x), imag(x) * inner), "hfft");
  }
  same(ifftshift(fftshift(x, {1}), {1}), x, "fftshift");
  const Variable signal = on_device(random(Shape{2, 100}, 2));
  for (const bool normalized : {false, true}) {
    const StftOptions o{.n_fft = 16, .normalized = normalized};
    const Variable window = on_device(hann_window(16, true, DType::f64));
    same(istft(stft(signal, o, window), o, window, 100), signal, "stft");
  }
}

TEST(Signals, AFewKnownValues) {
  const auto list = [](const Variable& x) { return values_of(x); };
  using V = std::vector<double>;
  const V spectrum = list(rfft(on_device(Tensor::from({1.f, 0.f, -1.f, 0.f})))), wanted{0, 0, 2, 0, 0, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(spectrum.at(i), wanted[i], 1e-6) << i;
  EXPECT_EQ(list(fftfreq(5)), list(Tensor::from({0.f, 0.2f, 0.4f, -0.4f, -0.2f})));
  EXPECT_EQ(list(rfftfreq(4, 0.5)), (V{0, 0.5, 1}));
  EXPECT_EQ(list(hann_window(4)), (V{0, 0.5, 1, 0.5}));
  EXPECT_EQ(list(bartlett_window(5, false)), (V{0, 0.5, 1, 0.5, 0}));
  EXPECT_EQ(list(kaiser_window(3, false, 0)), (V{1, 1, 1}));
  EXPECT_EQ(hamming_window(0).numel(), 0);
  const Variable x = on_device(Tensor::from({1.f, 5.f, 2.f, 4.f}, {1, 4, 1}));
  const auto [values, indices] = max_pool1d_with_indices(x);
  EXPECT_EQ(list(indices), (V{1, 3}));
  EXPECT_EQ(list(max_unpool1d(values, indices)), (V{0, 5, 0, 4}));
  EXPECT_EQ(list(lp_pool1d(-x, std::numeric_limits<double>::infinity())), (V{5, 4}));
}

/// A NaN or an infinity outside of the image is not read; a NaN of the grid is not lost.
TEST(Signals, GridSampleReadsWhatAPointNeeds) {
  Tensor image = Tensor::zeros({1, 1, 3, 1});
  image.mutable_data<float>()[2] = std::nanf("");
  const auto at = [&](double u, GridSamplePadding padding, GridSampleMode mode = GridSampleMode::kBilinear) {
    const Tensor place = Tensor::from(std::vector<float>{static_cast<float>(u), 0}, {1, 1, 1, 2});
    return grid_sample(on_device(image), on_device(place), grid(mode, padding, true)).item();
  };
  EXPECT_EQ(at(-0.5, GridSamplePadding::kZeros), 0);
  EXPECT_TRUE(std::isnan(at(0.5, GridSamplePadding::kZeros)));
  EXPECT_EQ(at(9, GridSamplePadding::kZeros), 0);
  EXPECT_EQ(at(std::numeric_limits<double>::infinity(), GridSamplePadding::kZeros, GridSampleMode::kNearest), 0);
  EXPECT_TRUE(std::isnan(at(9, GridSamplePadding::kBorder)));
  for (const GridSampleMode mode : {GridSampleMode::kBilinear, GridSampleMode::kNearest, GridSampleMode::kBicubic})
    for (const GridSamplePadding padding :
         {GridSamplePadding::kZeros, GridSamplePadding::kBorder, GridSamplePadding::kReflection})
      EXPECT_TRUE(std::isnan(at(kNaN, padding, mode)));
}

TEST(Signals, TheGradientOfPowerPoolingIsZeroOverZeros) {
  const Variable x(on_device(Tensor::zeros({1, 2, 2, 1})), true);
  backward(sum(lp_pool2d(x, 2)));
  for (const double g : x.grad().to_vector<double>()) EXPECT_EQ(g, 0);
}

TEST(Signals, RandomSlopesOfRrelu) {
  step_context().next = OpNumbers::at(7);
  const Variable x(on_device(Tensor::full({1000}, -2, DType::f32)), true);
  const Variable y = rrelu(x, 0.25, 0.5, true);
  backward(sum(y));
  const std::vector<double> values = values_of(y), slopes = x.grad().to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    EXPECT_EQ(values[i], -2 * slopes[i]);
    EXPECT_GE(slopes[i], 0.25);
    EXPECT_LT(slopes[i], 0.5);
    total += slopes[i];
  }
  EXPECT_NEAR(total / 1000, 0.375, 0.01);  // four standard deviations of 0.25 / sqrt(12,000)
  step_context().next = OpNumbers::at(7);
  EXPECT_EQ(values_of(rrelu(x, 0.25, 0.5, true)), values);
  nn::Rrelu layer({.lower = 0.25, .upper = 0.75});
  layer.train(false);
  EXPECT_EQ(layer(x).value().to(Device::cpu()).at(0), -1);
  layer.train(true);
  EXPECT_NE(layer(x).value().to(Device::cpu()).at(0), layer(x).value().to(Device::cpu()).at(1));
}

TEST(Signals, GumbelSoftmaxDrawsWithTheProbabilitiesOfTheLogits) {
  step_context().next = OpNumbers::at(9);
  constexpr std::int64_t kRows = 20000;
  const Variable logits = log(expand(on_device(Tensor::from({0.5f, 0.3f, 0.2f}).reshape({1, 3})), {kRows, 3}));
  const std::vector<double> drawn = values_of(mean(gumbel_softmax(logits, 1, true), 0));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(drawn[i], (std::vector{0.5, 0.3, 0.2})[i], 0.015) << i;
  const Variable x(on_device(random(Shape{4, 3}, 1)), true);
  step_context().next = OpNumbers::at(9);
  const Variable soft = gumbel_softmax(x, 0.5);
  backward(soft, on_device(random(Shape{4, 3}, 2)));
  const std::vector<double> wanted = x.grad().to_vector<double>();
  Variable leaf = x;
  leaf.zero_grad();
  step_context().next = OpNumbers::at(9);
  const Variable hard = gumbel_softmax(leaf, 0.5, true);
  backward(hard, on_device(random(Shape{4, 3}, 2)));
  EXPECT_EQ(leaf.grad().to_vector<double>(), wanted);
  for (const double v : values_of(hard)) EXPECT_TRUE(v == 0 || v == 1) << v;
  EXPECT_EQ(values_of(argmax(hard, 1)), values_of(argmax(soft, 1)));
}

/// More lines than a GPU transforms at once (cuda/device/fft.cu), against the definition.
TEST(Signals, ManyLinesAreTransformedInPieces) {
  const std::int64_t lines = (std::int64_t{1} << 19) + 3;
  const Tensor x = random(Shape{lines, 4}, 1);
  const std::vector<double> y = values_of(rfft(on_device(x)));
  const double* from = x.data<double>();
  double most = 0;
  for (std::int64_t line = 0; line < lines; ++line) {
    const double *v = from + 4 * line, *got = y.data() + 6 * line;
    const double wanted[] = {v[0] + v[1] + v[2] + v[3], 0, v[0] - v[2], v[3] - v[1], v[0] - v[1] + v[2] - v[3], 0};
    for (int i = 0; i < 6; ++i) most = std::max(most, std::abs(got[i] - wanted[i]));
  }
  EXPECT_LT(most, 1e-13);
}

/// Beyond and at the centers of the outermost pixels, the image is constant.
TEST(Signals, GridSampleHasNoSlopeAtTheEdge) {
  const Variable image(on_device(Tensor::from(std::vector<double>{10, 20, 30}, {1, 1, 3, 1})));
  for (const GridSamplePadding padding : {GridSamplePadding::kBorder, GridSamplePadding::kReflection}) {
    const Variable at(on_device(Tensor::from(std::vector<double>{-1, 0, -0.5, 0, 0, 0, 1, 0}, {1, 1, 4, 2})), true);
    backward(sum(grid_sample(image, at, grid(GridSampleMode::kBilinear, padding, true))));
    EXPECT_EQ(at.grad().to_vector<double>(), (std::vector<double>{0, 0, 10, 0, 10, 0, 0, 0}));
  }
  const Variable at(on_device(Tensor::from(std::vector<double>{0.25, 0}, {1, 1, 1, 2})), true);
  backward(sum(grid_sample(image, at, grid(GridSampleMode::kNearest, GridSamplePadding::kZeros, true))));
  EXPECT_EQ(at.grad().to_vector<double>(), (std::vector<double>{0, 0}));
}

/// Neither has a derivative at 0; PyTorch's gradients there are 0, as are Binade's. Elsewhere, second derivatives are
/// exact.
TEST(Signals, MagnitudeAndAngleOfZeroHaveFiniteGradients) {
  const auto slopes = [](const std::function<Variable(const Variable&)>& f, bool twice) {
    const Variable z(on_device(Tensor::from(std::vector<double>{0, 0, 0, 1, -2, 0}, {3, 2})), true);
    const Variable once = binade::grad(sum(f(z)), z, {.create_graph = true});
    return values_of(twice ? binade::grad(sum(once), z) : once);
  };
  EXPECT_EQ(slopes(complex_abs, false), (std::vector<double>{0, 0, 0, 1, -1, 0}));
  EXPECT_EQ(slopes(complex_abs, true), (std::vector<double>{0, 0, 1, 0, 0, 0.5}));
  EXPECT_EQ(slopes(complex_angle, false), (std::vector<double>{0, 0, -1, 0, 0, -0.5}));
  const std::vector<double> second = slopes(complex_angle, true);
  EXPECT_EQ(std::vector<double>(second.begin() + 2, second.end()), (std::vector<double>{1, 1, -0.25, -0.25}));
  const Variable z(on_device(Tensor::zeros({2}, DType::f64)), true);
  backward(complex_angle(z));
  EXPECT_EQ(z.grad().to_vector<double>(), (std::vector<double>{0, 0}));
}

TEST(Signals, UpsampleEnlargesSequencesAndVolumes) {
  nn::Upsample layer({.factor = 3, .mode = UpsampleMode::kLinear});
  EXPECT_EQ(layer(on_device(random(Shape{2, 4, 3}, 1))).shape(), (Shape{2, 12, 3}));
  EXPECT_EQ(layer(on_device(random(Shape{1, 2, 1, 3, 2}, 1))).shape(), (Shape{1, 6, 3, 9, 2}));
}

TEST(Signals, ErrorsSayWhatIsWrong) {
  const Variable x = on_device(random(Shape{2, 4, 5, 2}, 1)), line = on_device(random(Shape{8}, 2));
  const auto says = [](std::function<void()> f, const std::string& text) {
    const std::string error = error_of(f);
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  says([&] { fft(line); }, "fft: wanted complex numbers (…, n, 2)");
  says([&] { fft(x, -1); }, "fft: wanted a transform of 1 to 2^30 numbers, got -1");
  says([&] { irfft(on_device(random(Shape{1, 2}, 1))); }, "irfft: wanted positions along axis -1");
  says([&] { rfft(cast(line, DType::i64)); }, "rfft: wanted x of a floating dtype, got i64");
  says([&] { fft(x, 0, 3); }, "fft: ");
  says([&] { hfft(line); }, "hfft: wanted complex numbers");
  says([&] { fftshift(x, {}); }, "fftshift: wanted one or more axes of");
  says([&] { fft2(on_device(random(Shape{4, 2}, 1))); }, "fft2: ");
  says([&] { fftn(x, {4, 4}, {0}); }, "fftn: wanted a size for each axis, got 2 sizes and 1 axes");
  says([&] { fftn(x, {}, {0, 0}); }, "fftn: wanted different axes");
  says([&] { complex(line, x); }, "complex: wanted real and imaginary parts of one shape");
  says([&] { stft(line, {}); }, "stft: wanted n_fft from 1 to 2^30, got 0");
  says([&] { stft(line, {.n_fft = 40}); }, "stft: wanted signals of at least 21 samples");
  says([&] { stft(line, {.n_fft = 4}, line); }, "stft: wanted a window of win_length = 4 values");
  says(
      [&] {
        istft(on_device(random(Shape{3, 4, 2}, 1)), {.n_fft = 4, .hop_length = 5});
      },
      "istft: windows of hop_length 5 leave sample");
  says([&] { hann_window(-1); }, "hann_window: wanted 0 or more values, got -1");
  says([&] { kaiser_window(4, true, -1); }, "kaiser_window: wanted beta from 0 to 700, got -1");
  says([&] { fftfreq(0); }, "fftfreq: wanted 1 or more samples");
  says([&] { interpolate(x, {}); }, "interpolate: wanted either size or scale_factor");
  says([&] { interpolate(x, {.size = {1, 2, 3}}); }, "interpolate: wanted 1 or 2 numbers");
  says([&] { interpolate(x, {.size = {3}, .align_corners = true}); },
       "interpolate: align_corners and antialias are options of");
  says([&] { max_pool2d_with_indices(x, {.kernel = 7}); }, "max_pool2d_with_indices: wanted height + 2 padding >= ");
  says([&] { max_pool1d_with_indices(x); }, "max_pool1d_with_indices: wanted x of rank 3");
  says([&] { max_pool3d_with_indices(x); }, "max_pool3d_with_indices: wanted x of rank 5");
  says([&] { interpolate(line, {.size = {3}}); }, "interpolate: wanted sequences (N, L, C)");
  says([&] { interpolate(x, {.scale_factor = {0.01}}); }, "interpolate: wanted a scale_factor that gives 1 to 2^30");
  says([&] { grid_sample(x, line); }, "grid_sample: wanted images (N, H, W, C)");
  says([&] { affine_grid(x, {2, 3}); }, "affine_grid: wanted theta (N, 2, 3)");
  says([&] { lp_pool2d(x, 0); }, "lp_pool2d: wanted p > 0, got 0");
  says([&] { gumbel_softmax(x, 0); }, "gumbel_softmax: wanted a finite tau > 0, got 0");
  says([&] { rrelu(x, 1, 0); }, "rrelu: wanted finite slopes lower <= upper");
  says([&] { channel_shuffle(x, 3); }, "channel_shuffle: wanted x (…, C) with a multiple of 3 channels");
  if (tested_device() != Device::cpu()) return;  // a GPU reports a bad index at the next wait
  const Variable far = Tensor::full({1, 1, 1, 1}, 9, DType::i64);
  says([&] { max_unpool2d(Tensor::zeros({1, 1, 1, 1}), far); }, "wanted indices in [0, 4)");
}

}  // namespace
}  // namespace binade::conformance
