#include <cmath>
#include <complex>
#include <numbers>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/fft.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/sampling.h"
#include "binade/core/ops/fft.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/sampling.h"
#include "binade/core/ops/upsample.h"
#include "tests/conformance/registry.h"

// Cases for Fourier transforms (the references are sums in double), for weighted sums of table rows (taps), and for
// resizing in all modes.
namespace binade::conformance {
namespace {

using Complex = std::complex<double>;

/// One Fourier transform: the extents of x before, along and after the transformed axis (without a last axis for real
/// and imaginary parts), and the length n of the signal (0: the length that follows from `extent`).
struct Transform {
  const char* name;
  FftKind kind;
  bool inverse;
  std::int64_t outer, extent, inner, n;
  FftNorm norm = FftNorm::kBackward;

  std::int64_t length() const { return n != 0 ? n : kind == FftKind::kToReal ? 2 * (extent - 1) : extent; }
  Shape shape() const {
    return kind == FftKind::kFromReal ? Shape{outer, extent, inner} : Shape{outer, extent, inner, 2};
  }
  Variable operator()(const Variable& x) const {
    if (kind == FftKind::kFromReal) return rfft(x, n, 1, norm);
    if (kind == FftKind::kToReal) return irfft(x, n, 1, norm);
    return inverse ? ifft(x, n, 1, norm) : fft(x, n, 1, norm);
  }
  double scale() const {
    const auto count = static_cast<double>(length());
    if (norm == FftNorm::kOrtho) return 1 / std::sqrt(count);
    return inverse == (norm == FftNorm::kBackward) ? 1 / count : 1;
  }

  /// Computes the transform from its definition, as one sum per element.
  Expected reference(const Array& x) const {
    Expected y;
    const std::int64_t count = length(), inputs = kind == FftKind::kToReal ? count / 2 + 1 : count;
    const std::int64_t outputs = kind == FftKind::kFromReal ? count / 2 + 1 : count;
    const bool real = kind == FftKind::kFromReal;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t k = 0; k < outputs; ++k)
        for (std::int64_t i = 0; i < inner; ++i) {
          Complex sum = 0;
          double magnitude = 0;
          for (std::int64_t j = 0; j < std::min(inputs, extent); ++j) {
            const std::int64_t at = (o * extent + j) * inner + i;
            Complex value = real ? Complex(x[at]) : Complex(x[2 * at], x[2 * at + 1]);
            const bool once = j == 0 || 2 * j == count;
            if (kind == FftKind::kToReal) value = once ? Complex(value.real()) : 2.0 * value;
            const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % count) / static_cast<double>(count);
            sum += value * Complex(std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle));
            magnitude += std::abs(value);
          }
          for (int p = 0; p < (kind == FftKind::kToReal ? 1 : 2); ++p) {
            y.values.push_back(scale() * (p == 0 ? sum.real() : sum.imag()));
            y.magnitude.push_back(scale() * magnitude);
            y.terms.push_back(4);  // errors grow with log2(n), not with n: each level of an FFT rounds once
          }
        }
    return y;
  }
};

constexpr FftKind kC = FftKind::kComplex, kR = FftKind::kFromReal, kH = FftKind::kToReal;

/// Sizes of a weighted sum of table rows: each of the `points` results adds `taps` rows of a table (batches, rows,
/// cols). Some indices are out of range.
struct TapSizes {
  const char* name;
  std::int64_t batches, rows, points, taps, cols;

  Tensor index(std::uint64_t tag) const {
    Tensor t = random_labels(Shape{batches, points, taps}, tag, rows + 2);  // empty if there is no batch
    auto* to = t.numel() > 0 ? t.mutable_data<std::int64_t>() : nullptr;
    for (std::int64_t i = 0; i < t.numel(); ++i) to[i] -= 1;  // so that -1 and `rows` occur, which are out of range
    return t;
  }
  bool inside(double index) const { return index >= 0 && index < static_cast<double>(rows); }
  std::int64_t row(std::int64_t b, double index) const { return b * rows + static_cast<std::int64_t>(index); }
};

/// Calls body(point, tap, row) for every tap whose index is in range. All three count through all batches.
template <class F>
void each_tap(const TapSizes& s, const Array& index, F&& body) {
  for (std::int64_t b = 0; b < s.batches; ++b)
    for (std::int64_t p = 0; p < s.points; ++p)
      for (std::int64_t t = 0; t < s.taps; ++t) {
        const std::int64_t at = (b * s.points + p) * s.taps + t;
        if (s.inside(index[at])) body(b * s.points + p, at, s.row(b, index[at]));
      }
}

Expected zeros(std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  return {std::vector<double>(n), std::vector<double>(n, 0), std::vector<double>(n)};
}
void add(Expected& y, std::int64_t at, double value) {
  const auto i = static_cast<std::size_t>(at);
  y.values[i] += value;
  y.magnitude[i] += std::abs(value);
  y.terms[i] += 1;
}

const TapSizes kTaps[] = {
    {"one", 1, 1, 1, 1, 1},        {"bilinear", 2, 12, 9, 4, 3},  {"cubic", 1, 20, 5, 16, 5},
    {"one_column", 2, 6, 7, 4, 1}, {"no_points", 2, 4, 0, 4, 3},  {"no_taps", 2, 4, 3, 0, 2},
    {"no_batch", 0, 3, 2, 4, 2},   {"no_columns", 1, 3, 2, 2, 0}, {"many_columns", 1, 7, 3, 2, 131},
    {"one_row", 1, 1, 40, 3, 2},   {"odd", 3, 5, 4, 3, 7},        {"large", 2, 60, 200, 4, 9}};

/// R. Keys' cubic interpolation kernel with parameter a, at distance x.
double keys(double x, double a) {
  if (x <= 1) return (a + 2) * std::pow(x, 3) - (a + 3) * x * x + 1;
  return x < 2 ? a * std::pow(x, 3) - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/// Weight of input position i in output position o, along one dimension, with the antialiasing filter.
double filtered_weight_of(UpsampleMode mode, bool corners, std::int64_t i, std::int64_t o, std::int64_t in,
                          std::int64_t out) {
  double step = static_cast<double>(in) / static_cast<double>(out);
  if (corners) step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  double total = 0, own = 0;
  for (std::int64_t j = 0; j < in; ++j) {
    const double x = std::abs(static_cast<double>(j) + 0.5 - (static_cast<double>(o) + 0.5) * step) /
                     std::max(1.0, step);
    const double weight = mode == UpsampleMode::kBicubic ? keys(x, -0.5) : std::max(0.0, 1 - x);
    total += weight;
    if (j == i) own = weight;
  }
  return own / total;
}

/// Weight of input position i (of `in`) in output position o (of `out`), along one dimension.
double weight_of(UpsampleMode mode, bool corners, std::int64_t i, std::int64_t o, std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), at = static_cast<double>(o);
  if (mode == UpsampleMode::kNearestExact)
    return i == std::min(in - 1, static_cast<std::int64_t>(std::floor((at + 0.5) * scale + 1e-12))) ? 1 : 0;
  if (mode == UpsampleMode::kArea) {
    const auto first = static_cast<std::int64_t>(std::floor(at * scale + 1e-12)),
               end = static_cast<std::int64_t>(std::ceil((at + 1) * scale - 1e-12));
    return i >= first && i < end ? 1 / static_cast<double>(end - first) : 0;
  }
  double u = (at + 0.5) * scale - 0.5;
  if (corners) u = out > 1 ? at * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  const double low = std::floor(u);
  double weight = 0;
  for (int k = -1; k <= 2; ++k) {
    const double x = std::abs(u - (low + k));
    const double w = mode == UpsampleMode::kBicubic ? keys(x, -0.75) : std::max(0.0, 1 - x);
    if (std::clamp<std::int64_t>(static_cast<std::int64_t>(low) + k, 0, in - 1) == i) weight += w;
  }
  return weight;
}

struct ResizeSizes {
  const char* name;
  ShapeClass x;
  std::int64_t height, width;
};
const std::vector<ResizeSizes>& sizes() {
  static const std::vector<ResizeSizes> all = {{"one_pixel", {"", {1, 1, 1, 1}}, 1, 1},
                                               {"from_one_pixel", {"", {1, 1, 1, 3}}, 4, 5},
                                               {"same", {"", {2, 3, 4, 2}}, 3, 4},
                                               {"doubling", {"", {2, 3, 4, 3}}, 6, 8},
                                               {"tripling", {"", {1, 3, 2, 5}}, 9, 6},
                                               {"odd", {"", {1, 5, 7, 2}}, 8, 11},
                                               {"shrinking", {"", {1, 8, 9, 2}}, 3, 4},
                                               {"one_row", {"", {2, 1, 6, 3}}, 1, 13},
                                               {"channel_slice", {"", {2, 3, 3, 6}, true}, 6, 5},
                                               {"many_channels", {"", {1, 2, 2, 67}}, 4, 4},
                                               {"tall", {"", {1, 17, 1, 2}}, 34, 1},
                                               {"large", {"", {2, 7, 9, 9}}, 14, 18}};
  return all;
}

Case resize_case(const ResizeSizes& s, UpsampleMode mode, bool corners, const char* suffix, bool antialias = false) {
  return {.info = mode == UpsampleMode::kBicubic ? &ops::UpsampleBicubic::info : &ops::Upsample::info,
          .name = std::string(s.name) + suffix,
          .inputs = {random(s.x, 1)},
          .run =
              [s, mode, corners, antialias](const std::vector<Variable>& x) {
                return interpolate(
                    x[0],
                    {.size = {s.height, s.width}, .mode = mode, .align_corners = corners, .antialias = antialias});
              },
          .reference =
              [s, mode, corners, antialias](const std::vector<Array>& in) {
                const Shape& x = in[0].shape;
                const auto weight_along = antialias ? filtered_weight_of : weight_of;
                Expected y;
                for (std::int64_t b = 0; b < x[0]; ++b)
                  for (std::int64_t p = 0; p < s.height; ++p)
                    for (std::int64_t q = 0; q < s.width; ++q)
                      for (std::int64_t c = 0; c < x[3]; ++c) {
                        double sum = 0, magnitude = 0, taps = 8;
                        for (std::int64_t i = 0; i < x[1]; ++i)
                          for (std::int64_t j = 0; j < x[2]; ++j) {
                            const double weight = weight_along(mode, corners, i, p, x[1], s.height) *
                                                  weight_along(mode, corners, j, q, x[2], s.width);
                            if (weight == 0) continue;
                            const double v = weight * in[0][((b * x[1] + i) * x[2] + j) * x[3] + c];
                            sum += v;
                            magnitude += std::abs(v);
                            ++taps;
                          }
                        y.values.push_back(sum);
                        y.magnitude.push_back(magnitude);
                        y.terms.push_back(std::max(24.0, taps));
                      }
                return y;
              },
          .poison = false,  // whether a weight is exactly 0 depends on rounding
          .nan_must_show = false};
}

}  // namespace

std::vector<Case> fft_cases() {
  std::vector<Case> cases;
  for (const Transform& t : {Transform{"one", kC, false, 1, 1, 1, 0},
                             Transform{"eight", kC, false, 2, 8, 1, 0},
                             Transform{"inverse", kC, true, 2, 12, 1, 0},
                             Transform{"inner", kC, false, 2, 6, 3, 0},
                             Transform{"cut", kC, false, 2, 9, 2, 5},
                             Transform{"padded", kC, true, 2, 5, 2, 16},
                             Transform{"ortho", kC, false, 1, 30, 1, 0, FftNorm::kOrtho},
                             Transform{"forward", kC, true, 1, 7, 1, 0, FftNorm::kForward},
                             Transform{"prime", kC, false, 1, 67, 1, 0},
                             Transform{"prime_inverse", kC, true, 2, 134, 1, 0},
                             Transform{"real_one", kR, false, 2, 1, 1, 0},
                             Transform{"real_even", kR, false, 2, 16, 1, 0},
                             Transform{"real_odd", kR, false, 2, 15, 2, 0},
                             Transform{"real_cut", kR, false, 1, 11, 2, 8},
                             Transform{"real_padded", kR, false, 2, 5, 1, 9, FftNorm::kForward},
                             Transform{"real_prime", kR, false, 1, 142, 1, 0, FftNorm::kOrtho},
                             Transform{"to_real_one", kH, true, 2, 1, 1, 1},
                             Transform{"to_real_even", kH, true, 2, 9, 1, 0},
                             Transform{"to_real_odd", kH, true, 2, 8, 2, 15},
                             Transform{"to_real_two", kH, true, 1, 2, 3, 0},
                             Transform{"to_real_cut", kH, true, 2, 9, 1, 10, FftNorm::kOrtho},
                             Transform{"to_real_padded", kH, true, 1, 4, 2, 12, FftNorm::kForward},
                             Transform{"no_lines", kC, false, 0, 4, 2, 0},
                             Transform{"large", kC, false, 3, 500, 2, 0},
                             Transform{"large_real", kR, false, 5, 1024, 1, 0}})
    cases.push_back({.info = &ops::Fft::info,
                     .name = t.name,
                     .inputs = {random(t.shape(), 1)},
                     .run = [t](const std::vector<Variable>& x) { return t(x[0]); },
                     .reference = [t](const std::vector<Array>& in) { return t.reference(in[0]); },
                     .poison = false});  // an FFT adds terms that the definition multiplies by 0
  return cases;
}

std::vector<Case> sampling_cases() {
  std::vector<Case> cases;
  for (const TapSizes& s : kTaps) {
    const Tensor index = s.index(3), weight = random(Shape{s.batches, s.points, s.taps}, 2),
                 table = random(Shape{s.batches, s.rows, s.cols}, 1),
                 points = random(Shape{s.batches, s.points, s.cols}, 4);
    cases.push_back({.info = &ops::WeightedGather::info,
                     .name = s.name,
                     .inputs = {table, weight, index},
                     .run =
                         [](const std::vector<Variable>& x) {
                           return apply_one<ops::WeightedGather>({}, {x[0], x[1], x[2]});
                         },
                     .reference =
                         [s](const std::vector<Array>& in) {
                           Expected y = zeros(s.batches * s.points * s.cols);
                           each_tap(s, in[2], [&](std::int64_t point, std::int64_t at, std::int64_t row) {
                             for (std::int64_t c = 0; c < s.cols; ++c)
                               add(y, point * s.cols + c, in[1][at] * in[0][row * s.cols + c]);
                           });
                           return y;
                         },
                     .nan_must_show = false});
    cases.push_back({.info = &ops::WeightedScatter::info,
                     .name = s.name,
                     .inputs = {points, weight, index},
                     .run =
                         [s](const std::vector<Variable>& x) {
                           return apply_one<ops::WeightedScatter>({.rows = s.rows}, {x[0], x[1], x[2]});
                         },
                     .reference =
                         [s](const std::vector<Array>& in) {
                           Expected y = zeros(s.batches * s.rows * s.cols);
                           each_tap(s, in[2], [&](std::int64_t point, std::int64_t at, std::int64_t row) {
                             for (std::int64_t c = 0; c < s.cols; ++c)
                               add(y, row * s.cols + c, in[1][at] * in[0][point * s.cols + c]);
                           });
                           return y;
                         },
                     .nan_must_show = false});
    cases.push_back({.info = &ops::WeightedDot::info,
                     .name = s.name,
                     .inputs = {table, points, index},
                     .run =
                         [](const std::vector<Variable>& x) {
                           return apply_one<ops::WeightedDot>({}, {x[0], x[1], x[2]});
                         },
                     .reference =
                         [s](const std::vector<Array>& in) {
                           Expected y = zeros(s.batches * s.points * s.taps);
                           each_tap(s, in[2], [&](std::int64_t point, std::int64_t at, std::int64_t row) {
                             for (std::int64_t c = 0; c < s.cols; ++c)
                               add(y, at, in[0][row * s.cols + c] * in[1][point * s.cols + c]);
                           });
                           return y;
                         },
                     .nan_must_show = false});
  }
  return cases;
}

std::vector<Case> resize_cases() {
  std::vector<Case> cases;
  for (const ResizeSizes& s : sizes()) {
    cases.push_back(resize_case(s, UpsampleMode::kBicubic, false, ""));
    cases.push_back(resize_case(s, UpsampleMode::kBicubic, true, "_corners"));
    cases.push_back(resize_case(s, UpsampleMode::kBilinear, true, "_corners"));
    cases.push_back(resize_case(s, UpsampleMode::kNearestExact, false, "_exact"));
    cases.push_back(resize_case(s, UpsampleMode::kArea, false, "_area"));
    cases.push_back(resize_case(s, UpsampleMode::kBilinear, false, "_antialias", true));
    cases.push_back(resize_case(s, UpsampleMode::kBilinear, true, "_antialias_corners", true));
    cases.push_back(resize_case(s, UpsampleMode::kBicubic, true, "_antialias_corners", true));
  }
  return cases;
}

}  // namespace binade::conformance
