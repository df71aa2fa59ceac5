#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "binade/core/parallel.h"
#include "tests/conformance/levels.h"
#include "tests/error_text.h"

// Kernels have special loops for rows, long lines, few elements or single channels. These tests reach each of these
// loops, and compare the results with plain loops. The conformance cases test all dtypes at small sizes.
namespace binade::conformance {
namespace {

using test::error_of;

Tensor on_device(const Tensor& x) { return x.to(tested_device()); }
Tensor floats(const Shape& shape, std::uint64_t tag) { return random(shape, tag).to(DType::f32); }

// ---- indices
// ---------------------------------------------------------------------------------------------------------

/// Extents of the index and of x along the axis. The kernel processes blocks of 1024 indices: these end inside of a
/// block, at its end and behind it.
constexpr std::int64_t kCounts[][2] = {{1, 1}, {7, 3}, {1024, 50}, {1025, 2000}, {2100, 37}};

TEST(RowLoops, GatherAndScatterAlongTheLastAxisEqualAPlainLoop) {
  for (const auto& [count, extent] : kCounts)
    for (const std::int64_t more : {0, 2}) {  // x has this number of rows more than the index
      const std::int64_t rows = 3;
      const Tensor x = floats({rows + more, extent}, 1), s = floats({rows, count}, 2);
      const Tensor index = random_labels({rows, count}, 3, extent);
      const auto from = x.to_vector<float>(), source = s.to_vector<float>();
      const auto at = index.to_vector<std::int64_t>();
      std::vector<float> gathered, sum = from, last = from, most = from;
      for (std::int64_t i = 0; i < rows * count; ++i) {
        const auto n = static_cast<std::size_t>(i);
        const auto to = static_cast<std::size_t>(i / count * extent + at[n]);
        gathered.push_back(from[to]);
        sum[to] += source[n];  // in f32 and in the order of the index, as decision 0066 says
        last[to] = source[n];
        most[to] = std::max(most[to], source[n]);
      }
      const Variable a(on_device(x)), i(on_device(index)), b(on_device(s));
      EXPECT_EQ(gather(a, 1, i).value().to_vector<float>(), gathered);
      EXPECT_EQ(scatter_add(a, 1, i, b).value().to_vector<float>(), sum);
      EXPECT_EQ(scatter(a, 1, i, b).value().to_vector<float>(), last);
      EXPECT_EQ(scatter_reduce(a, 1, i, b, ScatterReduce::kAmax).value().to_vector<float>(), most);
    }
}

/// The gradient of each source element is the gradient of its target.
TEST(RowLoops, GradientsOfScatterAddEqualAPlainLoop) {
  for (const bool self : {true, false})
    for (const auto& [count, extent] : kCounts) {
      Variable x(on_device(floats({2, extent}, 1)), true), s(on_device(floats({2, count}, 2)), true);
      const Tensor index = random_labels({2, count}, 3, extent), g = floats({2, extent}, 4);
      const Variable y = scatter_reduce(x, 1, Variable(on_device(index)), s, ScatterReduce::kSum, self);
      backward(y, on_device(g));
      const auto at = index.to_vector<std::int64_t>();
      const auto gy = g.to_vector<float>();
      std::vector<float> gx = gy, gs;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const auto to = static_cast<std::size_t>(static_cast<std::int64_t>(i) / count * extent + at[i]);
        gs.push_back(gy[to]);
        if (!self) gx[to] = 0;
      }
      EXPECT_EQ(s.grad().to_vector<float>(), gs);
      EXPECT_EQ(x.grad().to_vector<float>(), gx);
    }
}

/// Tests whole rows, which several threads divide into slices, and rows of one element.
TEST(RowLoops, IndexAddEqualsAPlainLoopWithAnyNumberOfThreads) {
  const int before = num_threads();
  for (const std::int64_t width : {1, 3, 16, 70})
    for (const std::int64_t outer : {1, 3}) {
      const Tensor x = floats({outer, 11, width}, 1), s = floats({outer, 300, width}, 2);
      const Tensor index = random_labels({300}, 3, 11);
      auto sum = x.to_vector<float>();
      const auto source = s.to_vector<float>();
      const auto at = index.to_vector<std::int64_t>();
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t j = 0; j < 300; ++j)
          for (std::int64_t k = 0; k < width; ++k)
            sum[static_cast<std::size_t>((o * 11 + at[static_cast<std::size_t>(j)]) * width + k)] +=
                source[static_cast<std::size_t>((o * 300 + j) * width + k)];
      for (const int threads : {1, 2, 5}) {
        set_num_threads(threads);
        const Variable y = index_add(Variable(on_device(x)), 1, Variable(on_device(index)), Variable(on_device(s)));
        EXPECT_EQ(y.value().to_vector<float>(), sum) << width << " " << outer << " " << threads;
      }
    }
  set_num_threads(before);
}

TEST(RowLoops, TheFirstIndexOutOfRangeIsNamed) {
  if (tested_device() != Device::cpu()) GTEST_SKIP() << "a GPU reports an index at the next wait";
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{9}, std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max()}) {
    std::vector<std::int64_t> at(3 * 2100, 4);
    at[2 * 2100 - 1] = bad;
    at[3 * 2100 - 600] = -7;
    const Variable x(floats({3, 9}, 1)), s(floats({3, 2100}, 2)), i(Tensor::from(at, {3, 2100}));
    const std::string wanted = "got " + std::to_string(bad) + " at position (1, 2099)";
    for (const std::string& text :
         {error_of<DataError>([&] { gather(x, 1, i); }), error_of<DataError>([&] { scatter_add(x, 1, i, s); })})
      EXPECT_NE(text.find(wanted), std::string::npos) << text;
    const Variable columns(floats({9, 2100}, 1));
    const std::string text = error_of<DataError>([&] { scatter_add(columns, 0, i, s); });
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
  }
}

// ---- order
// -----------------------------------------------------------------------------------------------------------

/// Values with many equal ones, NaN, infinities and both zeros.
std::vector<double> awkward(std::int64_t n, bool floating, std::uint64_t tag) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {std::numeric_limits<double>::quiet_NaN(), -0.0, 0.0, kInfinity, -kInfinity};
  const auto pick = random_labels({n}, tag, 40).to_vector<std::int64_t>();
  std::vector<double> values;
  for (const std::int64_t p : pick)
    values.push_back(p < 5 && floating ? special[p] : static_cast<double>(p / 2 % (tag % 2 == 0 ? 20 : 2)));
  return values;
}

TEST(RowLoops, TopkEqualsAStableSort) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    for (const std::int64_t n : {1, 16, 17, 64, 70, 333})
      for (const std::int64_t k : {1, 5, 16, 17, 40, 150})
        for (const bool largest : {true, false})
          for (const std::uint64_t tag : {1, 2}) {
            if (k > n) continue;
            const Tensor x = Tensor::from(awkward(3 * n, is_floating(dtype), tag), {3, n}).to(dtype);
            const auto values = x.to(DType::f64).to_vector<double>();
            std::vector<std::int64_t> wanted;
            for (std::int64_t r = 0; r < 3; ++r) {
              std::vector<std::int64_t> order(static_cast<std::size_t>(n));
              std::iota(order.begin(), order.end(), 0);
              const auto before = [&](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
              std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
                const double a = values[static_cast<std::size_t>(r * n + i)];
                const double b = values[static_cast<std::size_t>(r * n + j)];
                return largest ? before(b, a) : before(a, b);
              });
              wanted.insert(wanted.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
            }
            EXPECT_EQ(topk(Variable(on_device(x)), k, 1, largest).indices.value().to_vector<std::int64_t>(), wanted)
                << name_of(dtype) << " " << k << " of " << n;
          }
}

// ---- cumulative ops
// --------------------------------------------------------------------------------------------------

/// Up to four lines are summed at the same time. The sums are computed in double and rounded once, so they equal those
/// of a plain loop.
TEST(RowLoops, CumulativeSumsOfRowsEqualAPlainLoop) {
  for (const std::int64_t rows : {1, 3, 4, 5, 9})
    for (const std::int64_t n : {1, 2, 33, 20000}) {
      Variable x(on_device(floats({rows, n}, 1)), true);
      const Variable y = cumsum(x, 1);
      const Tensor g = floats({rows, n}, 2);
      backward(y, on_device(g));
      const auto from = x.value().to_vector<float>(), gy = g.to_vector<float>();
      std::vector<float> sums(from.size()), gx(from.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0, back = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const auto forth = static_cast<std::size_t>(r * n + j), reverse = static_cast<std::size_t>(r * n + n - 1 - j);
          sums[forth] = static_cast<float>(sum += static_cast<double>(from[forth]));
          gx[reverse] = static_cast<float>(back += static_cast<double>(gy[reverse]));
        }
      }
      EXPECT_EQ(y.value().to_vector<float>(), sums) << rows << " of " << n;
      EXPECT_EQ(x.grad().to_vector<float>(), gx) << rows << " of " << n;
    }
}

/// Lines of several blocks, in f64: the bits are the same with any number of threads. The sums equal those of a plain
/// loop, except for the rounding of the blocks' totals.
TEST(RowLoops, CumulativeSumsOfLongLines) {
  constexpr std::int64_t kRows = 3, n = 2 * 32768 + 77;
  const Tensor x = random({kRows, n}, 1);
  const auto from = x.to_vector<double>();
  const int before = num_threads();
  std::vector<double> first;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const auto y = cumsum(Variable(on_device(x)), 1).value().to_vector<double>();
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << threads;
  }
  set_num_threads(before);
  for (std::int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(r * n + j);
      sum += from[at];
      ASSERT_NEAR(first[at], sum, 1e-10) << r << " " << j;  // 65613 terms of at most 2, each with an error of 2^-53
    }
  }
}

TEST(RowLoops, PositionsOfCumulativeExtremesEqualAPlainLoop) {
  for (const bool rows : {true, false}) {
    const Tensor x = Tensor::from(awkward(40 * 70, true, 2), rows ? Shape{70, 40} : Shape{40, 70}).to(DType::f32);
    const auto values = x.to(DType::f64).to_vector<double>();
    const auto most = cummax(Variable(on_device(x)), rows ? 1 : 0).indices.value().to_vector<std::int64_t>();
    for (std::int64_t line = 0; line < 70; ++line) {
      std::int64_t best = 0;
      const auto at = [&](std::int64_t j) { return static_cast<std::size_t>(rows ? line * 40 + j : j * 70 + line); };
      for (std::int64_t j = 0; j < 40; ++j) {
        const double kept = values[at(best)], next = values[at(j)];
        if (std::isnan(next) || (!std::isnan(kept) && next >= kept)) best = j;
        ASSERT_EQ(most[at(j)], best) << line << " " << j;
      }
    }
  }
}

// ---- convolutions
// ----------------------------------------------------------------------------------------------------

/// A convolution of volumes; sequences and images have extents of 1.
struct Convolution {
  Shape x, w;  // (N, D, H, W, C), (K, T, R, S, C / groups)
  std::int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1}, groups = 1;

  std::int64_t extent(int d) const {
    return (x[d + 1] + 2 * padding[d] - dilation[d] * (w[d + 1] - 1) - 1) / stride[d] + 1;
  }
  Shape y() const { return {x[0], extent(0), extent(1), extent(2), w[0]}; }
};

/// Calls f(index in y, index in x, index in w) for each product in the sums of the convolution.
template <class F>
void each_product(const Convolution& c, F&& f) {
  const Shape y = c.y();
  const std::int64_t part = c.w[4];
  std::int64_t p[3], r[3];
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (p[0] = 0; p[0] < y[1]; ++p[0])
      for (p[1] = 0; p[1] < y[2]; ++p[1])
        for (p[2] = 0; p[2] < y[3]; ++p[2])
          for (r[0] = 0; r[0] < c.w[1]; ++r[0])
            for (r[1] = 0; r[1] < c.w[2]; ++r[1])
              for (r[2] = 0; r[2] < c.w[3]; ++r[2]) {
                std::int64_t at = n, to = n, tap = 0;
                bool inside = true;
                for (int d = 0; d < 3; ++d) {
                  const std::int64_t i = p[d] * c.stride[d] - c.padding[d] + r[d] * c.dilation[d];
                  inside = inside && i >= 0 && i < c.x[d + 1];
                  at = at * c.x[d + 1] + i;
                  to = to * y[d + 1] + p[d];
                  tap = tap * c.w[d + 1] + r[d];
                }
                if (!inside) continue;
                const std::int64_t taps = c.w[1] * c.w[2] * c.w[3];
                for (std::int64_t k = 0; k < c.w[0]; ++k)
                  for (std::int64_t i = 0; i < part; ++i)
                    f(static_cast<std::size_t>(to * c.w[0] + k),
                      static_cast<std::size_t>(at * c.x[4] + k / (c.w[0] / c.groups) * part + i),
                      static_cast<std::size_t>((k * taps + tap) * part + i));
              }
}

void expect_near(const Variable& got, const std::vector<double>& wanted, const std::vector<double>& magnitude,
                 const std::string& what) {
  const auto values = got.value().to(DType::f64).to_vector<double>();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    // The sums have up to 4000 terms, which are added in blocks. Each rounding has an error of 2^-24; the errors are
    // random.
    ASSERT_NEAR(values[i], wanted[i], 0x1p-24 * 16 * magnitude[i] + 0x1p-24 * std::abs(wanted[i])) << what << " " << i;
}

void check_convolution(const Convolution& c, const std::string& name) {
  const Tensor x = floats(c.x, 1), w = floats(c.w, 2), b = floats({c.w[0]}, 3), g = floats(c.y(), 4);
  const auto xs = x.to_vector<float>(), ws = w.to_vector<float>(), bs = b.to_vector<float>(), gs = g.to_vector<float>();
  std::vector<double> y(gs.size()), gx(xs.size()), gw(ws.size()), y_size(y), gx_size(gx), gw_size(gw);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = y_size[i] = static_cast<double>(bs[i % bs.size()]);
  for (double& size : y_size) size = std::abs(size);
  each_product(c, [&](std::size_t to, std::size_t at, std::size_t tap) {
    const double v = static_cast<double>(xs[at]), f = static_cast<double>(ws[tap]), s = static_cast<double>(gs[to]);
    y[to] += v * f, y_size[to] += std::abs(v * f);
    gx[at] += s * f, gx_size[at] += std::abs(s * f);
    gw[tap] += s * v, gw_size[tap] += std::abs(s * v);
  });
  const Conv3dParams p{.stride = {c.stride[0], c.stride[1], c.stride[2]},
                       .padding = {c.padding[0], c.padding[1], c.padding[2]},
                       .dilation = {c.dilation[0], c.dilation[1], c.dilation[2]},
                       .groups = c.groups};
  at_every_level([&](std::string_view level) {
    std::vector<float> first[3];
    const int before = num_threads();
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      Variable vx(on_device(x), true), vw(on_device(w), true), vb(on_device(b), true);
      Variable result;
      if (c.x[1] == 1 && c.w[1] == 1)
        result = reshape(conv2d(reshape(vx, {c.x[0], c.x[2], c.x[3], c.x[4]}),
                                reshape(vw, {c.w[0], c.w[2], c.w[3], c.w[4]}), vb,
                                {.stride = p.stride.plane(),
                                 .padding = p.padding.plane(),
                                 .dilation = p.dilation.plane(),
                                 .groups = c.groups}),
                         {c.x[0], 1, c.extent(1), c.extent(2), c.w[0]});
      else
        result = conv3d(vx, vw, vb, p);
      backward(result, on_device(g));
      const std::string what = name + " at " + std::string(level);
      expect_near(result, y, y_size, what + ", y");
      expect_near(vx.grad(), gx, gx_size, what + ", gx");
      expect_near(vw.grad(), gw, gw_size, what + ", gw");
      const std::vector<float> now[] = {result.value().to_vector<float>(), vx.grad().to_vector<float>(),
                                        vw.grad().to_vector<float>()};
      for (int i = 0; i < 3; ++i) {
        if (threads == 1) first[i] = now[i];
        EXPECT_EQ(now[i], first[i]) << what << ", result " << i << ": the number of threads changed the bits";
      }
    }
    set_num_threads(before);
  });
}

TEST(RowLoops, DepthwiseConvolutionsEqualAPlainLoop) {
  check_convolution({{2, 1, 1, 700, 9}, {9, 1, 1, 7, 1}, {1, 1, 1}, {0, 0, 3}, {1, 1, 1}, 9}, "sequence");
  check_convolution({{1, 1, 7, 9, 34}, {34, 1, 3, 3, 1}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 34}, "image");
  check_convolution({{2, 1, 9, 11, 5}, {5, 1, 3, 4, 1}, {1, 2, 3}, {0, 2, 1}, {1, 1, 2}, 5}, "strided");
  check_convolution({{1, 1, 2, 2, 3}, {3, 1, 4, 9, 1}, {1, 1, 1}, {0, 4, 5}, {1, 2, 1}, 3}, "larger_than_the_image");
  check_convolution({{1, 1, 1, 1, 2}, {2, 1, 1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 2}, "one_pixel");
}

TEST(RowLoops, LongRowsAreCut) {
  check_convolution({{1, 1, 1, 1500, 3}, {5, 1, 1, 3, 3}, {1, 1, 1}, {0, 0, 1}}, "sequence");
  check_convolution({{2, 1, 1, 1301, 4}, {4, 1, 1, 5, 2}, {1, 1, 2}, {0, 0, 4}, {1, 1, 3}, 2}, "strided");
  check_convolution({{1, 1, 3, 400, 2}, {3, 1, 2, 3, 2}, {1, 1, 1}, {0, 1, 1}}, "few_rows");
}

TEST(RowLoops, VolumesEqualAPlainLoop) {
  // With 18 channels, one task copies 1820 positions, which is not a multiple of the three planes of the filter.
  check_convolution({{1, 6, 12, 13, 18}, {2, 3, 2, 3, 18}, {1, 1, 2}, {1, 0, 1}}, "volume");
  check_convolution({{1, 6, 3, 3, 4}, {6, 2, 1, 3, 2}, {1, 1, 1}, {2, 0, 1}, {2, 1, 1}, 2}, "groups");
  check_convolution({{1, 5, 3, 3, 3}, {2, 3, 1, 1, 3}, {2, 1, 1}, {1, 0, 0}}, "strided");
}

// ---- small Cholesky factors
// ------------------------------------------------------------------------------------------

TEST(RowLoops, CholeskyFactorsOfSmallMatrices) {
  if (tested_device() != Device::cpu()) GTEST_SKIP() << "a GPU has no kernels for decompositions";
  for (const DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n = 1; n <= 35; ++n) {
      const Tensor b = random({3, n, n}, static_cast<std::uint64_t>(n)).to(dtype);
      const Variable a = matmul(b, b, {.transpose_b = true}) + static_cast<double>(n);
      const Variable diagonal = a + Variable(eye(n, n, dtype)) * static_cast<double>(4 * n);
      const auto l = cholesky(diagonal).value().to(DType::f64).to_vector<double>();
      const auto wanted = diagonal.value().to(DType::f64).to_vector<double>();
      const double unit = dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
      for (std::int64_t m = 0; m < 3; ++m)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            const auto at = [&](std::int64_t r, std::int64_t c) {
              return l[static_cast<std::size_t>((m * n + r) * n + c)];
            };
            if (j > i) {
              ASSERT_EQ(at(i, j), 0);
            }
            double sum = 0;
            for (std::int64_t k = 0; k < n; ++k) sum += at(i, k) * at(j, k);
            const auto entry = [&](std::int64_t r, std::int64_t c) {
              return wanted[static_cast<std::size_t>((m * n + r) * n + c)];
            };
            // |l l^T - a| <= (n + 1) u |l| |l^T|, and the rows of l have the lengths sqrt(a_ii). Higham, "Accuracy and
            // Stability of Numerical Algorithms", theorem 10.3.
            ASSERT_NEAR(sum, entry(i, j), static_cast<double>(n + 2) * unit * std::sqrt(entry(i, i) * entry(j, j)))
                << name_of(dtype) << " " << n;
          }
    }
}

TEST(RowLoops, SmallMatricesWithoutACholeskyFactor) {
  if (tested_device() != Device::cpu()) GTEST_SKIP() << "a GPU has no kernels for decompositions";
  for (const std::int64_t n : {1, 5, 32}) {
    std::vector<double> values(static_cast<std::size_t>(n * n));
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i * n + i)] = i == n - 1 ? 0 : 2;
    const std::string text = error_of([&] { cholesky(Variable(Tensor::from(values, {n, n}))); });
    EXPECT_NE(text.find("whose pivot " + std::to_string(n - 1) + " is not positive"), std::string::npos) << text;
    values.back() = std::numeric_limits<double>::quiet_NaN();
    const Variable l = cholesky(Variable(Tensor::from(values, {n, n})));
    EXPECT_TRUE(std::isnan(l.value().to_vector<double>().back()));
  }
}

}  // namespace
}  // namespace binade::conformance
