#include "binade/autograd/functions/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"
#include "binade/core/runtime.h"
#include "tests/core/fenced.h"

namespace binade::cpu {
namespace {

using test::Fenced;

struct Case {
  std::int64_t batch, queries, keys, heads, key_heads, depth;
  bool causal = false;
  float dropout = 0;
  bool mask = false;  // hides every third key of odd batches, and all keys of batch 2
};

const std::vector<Case> kCases = {{1, 1, 1, 1, 1, 1},
                                  {2, 5, 7, 2, 2, 4},
                                  {2, 6, 6, 4, 2, 3, true},
                                  {1, 70, 70, 2, 1, 16, true},
                                  {1, 130, 33, 1, 1, 40},
                                  {1, 2, 60, 2, 2, 64, true},
                                  {1, 6, 3, 1, 1, 8, true},  // the first queries attend to no key
                                  {3, 9, 20, 2, 2, 17, false, 0, true},
                                  {3, 20, 20, 2, 2, 32, true, 0, true},
                                  {2, 9, 11, 2, 1, 8, false, 0.3f},
                                  {3, 12, 12, 2, 2, 8, true, 0.25f, true},
                                  {1, 4, 0, 1, 1, 4},
                                  {1, 300, 310, 2, 1, 8, true},     // backward sums over several blocks of queries
                                  {1, 310, 300, 2, 2, 6, true},     // and the first queries attend to no key
                                  {1, 260, 290, 3, 1, 10, false}};  // three query heads share one key head

/// The inputs of attention, and the results of its formulas in double.
template <class T>
struct Problem {
  explicit Problem(const Case& shape) : c(shape) {
    fill(q, c.batch * c.queries * c.heads * c.depth, 1);
    fill(k, c.batch * c.keys * c.key_heads * c.depth, 2);
    fill(v, k.size(), 3);
    fill(gy, static_cast<std::int64_t>(q.size()), 4);
    args.batch = c.batch;
    args.queries = c.queries;
    args.keys = c.keys;
    args.heads = c.heads;
    args.key_heads = c.key_heads;
    args.depth = c.depth;
    args.scale = 1 / std::sqrt(static_cast<double>(c.depth));
    args.causal = c.causal;
    args.dtype = kDTypeOf<T>;
    args.q = {q.data(), c.heads * c.depth, c.depth};
    args.k = {k.data(), c.key_heads * c.depth, c.depth};
    args.v = {v.data(), c.key_heads * c.depth, c.depth};
    args.dropout = c.dropout;
    args.rng = {.seed = 5, .purpose = RngPurpose::kDropout, .step = 3, .index = 2};
    if (c.mask) {
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t s = 0; s < c.keys; ++s)
          mask.push_back(b == 2 || (b == 1 && s % 3 == 0) ? -std::numeric_limits<Compute<T>>::infinity()
                                                          : Compute<T>(0.1) * static_cast<Compute<T>>(s % 2));
      args.mask = mask.data();
      args.mask_batch = c.keys;
    }
  }

  /// Sets a different mask for each query, which hides a quarter of the keys.
  void mask_each_query(unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<Compute<T>> normal;
    mask.resize(static_cast<std::size_t>(c.batch * c.heads * c.queries * c.keys));
    for (Compute<T>& x : mask)
      x = generator() % 4 == 0 ? -std::numeric_limits<Compute<T>>::infinity() : normal(generator);
    args.mask = mask.data();
    args.mask_query = c.keys;
    args.mask_head = c.queries * c.keys;
    args.mask_batch = c.heads * c.queries * c.keys;
  }
  double masked(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    if (args.mask == nullptr) return 0;
    const std::int64_t at = b * args.mask_batch + h * args.mask_head + t * args.mask_query + s;
    return static_cast<double>(mask[static_cast<std::size_t>(at)]);
  }

  void reference() {
    y.assign(q.size(), 0);
    gq.assign(q.size(), 0);
    gk.assign(k.size(), 0);
    gv.assign(v.size(), 0);
    const std::int64_t d = c.depth;
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t t = 0; t < c.queries; ++t) {
          const std::size_t at = static_cast<std::size_t>(((b * c.queries + t) * c.heads + h) * d);
          const auto key = [&](std::int64_t s) {
            return static_cast<std::size_t>(((b * c.keys + s) * c.key_heads + h / (c.heads / c.key_heads)) * d);
          };
          const std::int64_t seen = c.causal ? std::max<std::int64_t>(0, t + 1 + c.keys - c.queries) : c.keys;
          std::vector<double> p(static_cast<std::size_t>(seen)), factor(p.size(), 1);
          double highest = -INFINITY, sum = 0;
          for (std::int64_t s = 0; s < seen; ++s) {
            double l = 0;
            for (std::int64_t i = 0; i < d; ++i) l += at_of(q, at, i) * at_of(k, key(s), i);
            p[static_cast<std::size_t>(s)] = l * args.scale + masked(b, h, t, s);
            highest = std::max(highest, p[static_cast<std::size_t>(s)]);
            if (c.dropout > 0) {
              const auto word = static_cast<std::uint64_t>(((b * c.heads + h) * c.queries + t) * c.keys + s);
              factor[static_cast<std::size_t>(s)] = args.rng.uniform(word) >= c.dropout
                                                        ? 1 / (1 - static_cast<double>(c.dropout))
                                                        : 0;
            }
          }
          if (highest == -INFINITY) continue;
          for (double& x : p) sum += x = std::exp(x - highest);
          double delta = 0;
          for (std::size_t s = 0; s < p.size(); ++s) {
            p[s] /= sum;
            for (std::int64_t i = 0; i < d; ++i)
              y[at + static_cast<std::size_t>(i)] += p[s] * factor[s] * at_of(v, key(static_cast<std::int64_t>(s)), i);
          }
          for (std::int64_t i = 0; i < d; ++i) delta += y[at + static_cast<std::size_t>(i)] * at_of(gy, at, i);
          for (std::size_t s = 0; s < p.size(); ++s) {
            const std::size_t j = key(static_cast<std::int64_t>(s));
            double gp = 0;
            for (std::int64_t i = 0; i < d; ++i) gp += at_of(gy, at, i) * at_of(v, j, i);
            const double gl = p[s] * (gp * factor[s] - delta) * args.scale;
            for (std::size_t i = 0; i < static_cast<std::size_t>(d); ++i) {
              gv[j + i] += p[s] * factor[s] * at_of(gy, at, static_cast<std::int64_t>(i));
              gq[at + i] += gl * at_of(k, j, static_cast<std::int64_t>(i));
              gk[j + i] += gl * at_of(q, at, static_cast<std::int64_t>(i));
            }
          }
        }
  }

  /// Returns y, gq, gk and gv as the kernels compute them, one after another.
  Fenced<T> compute() const {
    Fenced<T> all(2 * q.size() + 2 * k.size());
    Fenced<Compute<T>> lse(static_cast<std::size_t>(c.batch * c.heads * c.queries));
    T* to = all.data();
    level().attention.forward(
        {.args = args, .y = to, .y_token = c.heads * c.depth, .y_head = c.depth, .lse = lse.data()});
    const std::int64_t query = c.heads * c.depth, key = c.key_heads * c.depth;
    level().attention.backward({.args = args,
                                .y = {to, query, c.depth},
                                .gy = {gy.data(), query, c.depth},
                                .lse = lse.data(),
                                .gq = {to + q.size(), query, c.depth},
                                .gk = {to + 2 * q.size(), key, c.depth},
                                .gv = {to + 2 * q.size() + k.size(), key, c.depth}});
    return all;
  }

  static double at_of(const Fenced<T>& x, std::size_t at, std::int64_t i) {
    return static_cast<double>(load(x[at + static_cast<std::size_t>(i)]));
  }
  static void fill(Fenced<T>& x, std::int64_t size, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    x.resize(static_cast<std::size_t>(size));
    for (T& value : x) value = store<T>(normal(generator));
  }
  static void fill(Fenced<T>& x, std::size_t size, unsigned seed) { fill(x, static_cast<std::int64_t>(size), seed); }

  Case c;
  AttentionArgs args;
  Fenced<T> q, k, v, gy;
  Fenced<Compute<T>> mask;
  std::vector<double> y, gq, gk, gv;
};

class Attention : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    before_ = level().isa;
    select_isa(GetParam());
  }
  void TearDown() override { select_isa(before_); }

 private:
  std::string_view before_;
};
INSTANTIATE_TEST_SUITE_P(Isa, Attention, ::testing::ValuesIn(isa_levels()),
                         [](const auto& param_info) { return std::string(param_info.param); });

/// Expects that the error of each element is at most `unit` times the largest magnitude of its tensor (at least 1),
/// because probabilities are rounded to that unit.
template <class T>
void expect_close(Problem<T>& problem, double unit) {
  const Case& c = problem.c;
  SCOPED_TRACE(fmt::format("B {} T {} S {} H {} G {} D {} causal {} dropout {} mask {} {}", c.batch, c.queries, c.keys,
                           c.heads, c.key_heads, c.depth, c.causal, c.dropout, problem.args.mask != nullptr,
                           name_of(kDTypeOf<T>)));
  problem.reference();
  const Fenced<T> got = problem.compute();
  std::size_t at = 0;
  for (const std::vector<double>* want : {&problem.y, &problem.gq, &problem.gk, &problem.gv}) {
    double largest = 1;
    for (double x : *want) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < want->size(); ++i, ++at)
      ASSERT_LE(std::abs(static_cast<double>(load(got[at])) - (*want)[i]), unit * largest) << "at " << at;
  }
}
/// If `mask_seed` is not 0, each query has its own mask.
template <class T>
void expect_close(const Case& c, double unit, unsigned mask_seed = 0) {
  Problem<T> problem(c);
  if (mask_seed != 0) problem.mask_each_query(mask_seed);
  expect_close(problem, unit);
}
void expect_close_in_all_dtypes(const Case& c, unsigned mask_seed = 0) {
  expect_close<double>(c, 1e-13, mask_seed);
  expect_close<float>(c, 4e-6, mask_seed);  // exponentials and sums of up to 310 terms at 2^-24
  expect_close<float16>(c, 4e-3,
                        mask_seed);  // probabilities, gradients of logits, y and each result are rounded at 2^-11
  expect_close<bfloat16>(c, 3e-2, mask_seed);  // the same at 2^-8
}

TEST_P(Attention, MatchesTheFormulasForwardAndBackward) {
  for (const Case& c : kCases) expect_close_in_all_dtypes(c);
}

TEST_P(Attention, MatchesTheFormulasAtAnyShape) {
  constexpr unsigned kSeed = 20261124;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937 generator(kSeed);
  const auto from = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(generator() % static_cast<unsigned>(high - low + 1));
  };
  for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
    Case c{from(1, 2), from(1, 70), from(1, 70),
           1,          1,           from(1, 48)};  // around the sizes of tiles (6 to 32 rows) and panels (8 to 32 keys)
    c.key_heads = from(1, 2);
    c.heads = c.key_heads * from(1, 3);
    c.causal = i % 4 != 0;
    c.dropout = i % 5 == 0 ? 0.2f : 0;
    expect_close_in_all_dtypes(c, i % 3 == 0 ? static_cast<unsigned>(i + 1) : 0);
  }
}

template <class T>
void expect_same_bits_at_any_thread_count(const Case& c) {
  const Problem<T> problem(c);
  Fenced<T> first;
  for (int threads : {1, 2, 3, 4, 8}) {
    set_num_threads(threads);
    const Fenced<T> all = problem.compute();
    if (first.empty()) first = all;
    EXPECT_EQ(std::memcmp(first.data(), all.data(), all.size() * sizeof(T)), 0)
        << threads << " threads, " << name_of(kDTypeOf<T>);
  }
  set_num_threads(0);
}
TEST_P(Attention, GivesTheSameBitsForEveryNumberOfThreads) {
  for (const Case& c : {Case{2, 150, 150, 4, 2, 24, true, 0.1f, true}, Case{1, 290, 300, 4, 2, 8, true}}) {
    expect_same_bits_at_any_thread_count<float>(c);
    expect_same_bits_at_any_thread_count<bfloat16>(c);
  }
}

/// Kernels read their buffers in whole vectors. Behind the end of a row they may read values of an earlier call, which
/// must not affect the result.
template <class T>
void expect_nothing_left_of_nan(const Case& c) {
  const Problem<T> clean(c);
  const Fenced<T> before = clean.compute();
  Problem<T> full_of_nan({1, 400, 400, 1, 1, 64});
  std::fill(full_of_nan.q.begin(), full_of_nan.q.end(), store<T>(std::numeric_limits<Compute<T>>::quiet_NaN()));
  full_of_nan.compute();
  const Fenced<T> after = clean.compute();
  EXPECT_EQ(std::memcmp(before.data(), after.data(), after.size() * sizeof(T)), 0)
      << name_of(kDTypeOf<T>) << ", " << c.keys << " keys, dropout " << c.dropout;
}
TEST_P(Attention, DoesNotReadValuesOfAnEarlierCall) {
  set_num_threads(1);  // so that both calls use the same working memory
  for (const Case& c : {Case{1, 37, 37, 2, 1, 12, true}, Case{1, 29, 45, 2, 2, 9, true, 0.2f}, Case{1, 15, 21, 1, 1, 5},
                        Case{1, 300, 270, 1, 1, 8, true}}) {
    expect_nothing_left_of_nan<double>(c);
    expect_nothing_left_of_nan<float>(c);
    expect_nothing_left_of_nan<float16>(c);
    expect_nothing_left_of_nan<bfloat16>(c);
  }
  set_num_threads(0);
}

/// Two keys whose logits differ by x: y is the probability of the lower one, e^x / (1 + e^x), and lse is log(1 + e^x).
template <class T>
void expect_exponentials(double tolerance, double lse_tolerance) {
  constexpr std::int64_t kPairs = 450;
  for (std::int64_t i = 0; i < kPairs; ++i) {
    const double x = -0.25 * static_cast<double>(i);
    const Fenced<T> q(1, store<T>(Compute<T>{1})), k{store<T>(Compute<T>{0}), store<T>(static_cast<Compute<T>>(x))},
        v{store<T>(Compute<T>{0}), store<T>(Compute<T>{1})};
    Fenced<T> y(1);
    Fenced<Compute<T>> lse(1);
    const double apart = static_cast<double>(load(k[1]));
    level().attention.forward({.args = {.batch = 1,
                                        .queries = 1,
                                        .keys = 2,
                                        .heads = 1,
                                        .key_heads = 1,
                                        .depth = 1,
                                        .dtype = kDTypeOf<T>,
                                        .q = {q.data(), 1, 1},
                                        .k = {k.data(), 1, 1},
                                        .v = {v.data(), 1, 1},
                                        .rng = {}},
                               .y = y.data(),
                               .y_token = 1,
                               .y_head = 1,
                               .lse = lse.data()});
    const double share = std::exp(apart) / (1 + std::exp(apart));
    if (share < 1e-37) {
      EXPECT_LE(static_cast<double>(load(y[0])), 1e-37) << apart;
    } else {
      EXPECT_NEAR(static_cast<double>(load(y[0])) / share, 1, tolerance * (2 - apart)) << apart;
    }
    EXPECT_NEAR(static_cast<double>(lse[0]), std::log1p(std::exp(apart)), lse_tolerance) << apart;
  }
}
TEST_P(Attention, ExponentialsAreAccurate) {
  // Logits are rounded before exp, so the error of the probability grows with the logit.
  expect_exponentials<double>(0x1p-51, 0x1p-51);
  expect_exponentials<float>(0x1p-23, 0x1p-22);
  expect_exponentials<bfloat16>(
      0x1p-8, 0x1p-17);  // y is rounded to 8 bits; lse is not rounded, and its exponentials have 18 bits
}

TEST_P(Attention, AQueryWithoutKeysGivesZeroAndZeroGradients) {
  Problem<float> problem({3, 4, 5, 1, 1, 6, false, 0, true});  // all keys of batch 2 are hidden
  const Fenced<float> all = problem.compute();
  const std::size_t queries = problem.q.size(), keys = problem.k.size();
  for (std::size_t i = queries / 3 * 2; i < queries; ++i) {
    EXPECT_EQ(all[i], 0);
    EXPECT_EQ(all[queries + i], 0);
  }
  for (std::size_t i = keys / 3 * 2; i < keys; ++i) {
    EXPECT_EQ(all[2 * queries + i], 0);
    EXPECT_EQ(all[2 * queries + keys + i], 0);
  }
}

/// Causal attention with a NaN in row `bad_row` of one input: expects NaN in exactly the rows of y, gq, gk and gv that
/// depend on it; all other rows keep their bits.
template <class T>
void expect_nan_in_dependent_rows(std::int64_t rows, std::int64_t bad_row) {
  constexpr std::int64_t kDepth = 8, kColumn = 3;
  enum Input { kQ, kK, kV, kGy };
  const Problem<T> clean({1, rows, rows, 1, 1, kDepth, true});
  const Fenced<T> want = clean.compute();
  for (const Input input : {kQ, kK, kV, kGy}) {
    Problem<T> bad({1, rows, rows, 1, 1, kDepth, true});
    Fenced<T>& values = input == kQ ? bad.q : input == kK ? bad.k : input == kV ? bad.v : bad.gy;
    values[bad_row * kDepth + kColumn] = store<T>(std::numeric_limits<Compute<T>>::quiet_NaN());
    const Fenced<T> got = bad.compute();
    for (int output = 0; output < 4; ++output)
      for (std::int64_t row = 0; row < rows; ++row) {
        const bool of_query = input == kQ || input == kGy;
        bool expected = false;
        switch (output) {
          case 0: expected = input == kQ ? row == bad_row : input != kGy && row >= bad_row; break;  // y
          case 1: expected = of_query ? row == bad_row : row >= bad_row; break;                     // gq
          case 2: expected = !of_query || row <= bad_row; break;                                    // gk
          default: expected = input != kV && (input == kK || row <= bad_row); break;                // gv
        }
        bool any = false, same = true;
        for (std::int64_t d = 0; d < kDepth; ++d) {
          const auto at = static_cast<std::size_t>((output * rows + row) * kDepth + d);
          const bool nan = std::isnan(load(got[at]));
          any |= nan;
          same &= load(got[at]) == load(want[at]);
          if (output == 0 && input == kV && d != kColumn) {
            EXPECT_FALSE(nan) << "a value's NaN stays in its column";
          }
        }
        EXPECT_TRUE(expected ? any : same)
            << name_of(kDTypeOf<T>) << ", NaN in row " << bad_row << " of " << rows << ", input " << input
            << ", output " << output << ", row " << row << (expected ? ": swallowed" : ": reached");
      }
  }
}

TEST_P(Attention, NanReachesExactlyTheRowsThatDependOnIt) {
  // Rows with the NaN: every row of a few tiles, so that only some rows of a tile attend to it; the last of an odd
  // number of rows; rows in the second block of queries; a row that shares a pair of keys with a row that does not
  // attend to it.
  std::vector<std::pair<std::int64_t, std::int64_t>> places = {{21, 20}, {66, 33}, {300, 3}, {300, 150}, {300, 299}};
  for (std::int64_t row = 0; row < 30; ++row) places.emplace_back(30, row);
  for (const auto& [rows, bad_row] : places) {
    expect_nan_in_dependent_rows<double>(rows, bad_row);
    expect_nan_in_dependent_rows<float>(rows, bad_row);
    expect_nan_in_dependent_rows<float16>(rows, bad_row);
    expect_nan_in_dependent_rows<bfloat16>(rows, bad_row);
  }
}

TEST_P(Attention, InfiniteValuesReachTheirColumnInTheRowsThatAttendToThem) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Problem<float> clean({1, 20, 20, 1, 1, 8, true});
  const Fenced<float> want = clean.compute();
  for (const float value : {kInfinity, -kInfinity}) {
    Problem<float> problem({1, 20, 20, 1, 1, 8, true});
    problem.v[10 * 8 + 3] = value;
    const Fenced<float> got = problem.compute();
    for (std::size_t i = 0; i < 20 * 8; ++i) EXPECT_EQ(got[i], i / 8 >= 10 && i % 8 == 3 ? value : want[i]) << i;
  }
}

/// A result row is 0 only if a mask hides all keys or there is no key. If logits are -inf without a mask, they have
/// overflowed, and the row must be NaN.
TEST_P(Attention, ARowWhoseLogitsAreMinusInfinityWithoutAMaskIsNan) {
  for (const bool masked : {false, true}) {
    Problem<float> problem({2, 2, 3, 1, 1, 4, false, 0, masked});          // the mask hides key 0 of batch 1
    problem.q[0] = problem.q[8] = std::numeric_limits<float>::infinity();  // row 0 of each batch
    for (std::size_t s = 0; s < 6; ++s) problem.k[s * 4] = -1;
    const Fenced<float> all = problem.compute();
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(std::isnan(all[i]), i / 4 % 2 == 0) << i << " masked " << masked;
  }
}

TEST_P(Attention, ANanInAHiddenKeyIsPropagated) {
  Problem<float> problem({2, 4, 6, 1, 1, 8, false, 0, true});  // key 3 of batch 1 is hidden
  problem.k[(6 + 3) * 8] = std::numeric_limits<float>::quiet_NaN();
  const Fenced<float> all = problem.compute();
  for (std::size_t t = 0; t < 8; ++t) EXPECT_EQ(std::isnan(all[t * 8]), t >= 4) << t;
}

/// Returns y for one query and two keys whose logits differ by 3 scale: the softmax of two numbers is a sigmoid.
double share_of_first(DType dtype, double scale, std::int64_t depth) {
  const Runtime runtime({.seed = 1, .threads = 1});
  const Tensor q = Tensor::full({1, 1, 1, depth}, 1.0, dtype);
  std::vector<double> keys(static_cast<std::size_t>(2 * depth), 0.0), values(keys);
  keys[0] = 3;
  values[0] = 1;
  const Shape two{1, 2, 1, depth};
  const Variable y = attention(Variable(q), Variable(Tensor::from(keys, two).to(dtype)),
                               Variable(Tensor::from(values, two).to(dtype)), {.scale = scale});
  return y.value().at(0);
}

TEST(AttentionOp, F64ScalesInDouble) {
  EXPECT_NEAR(share_of_first(DType::f64, 0, 3), 1 / (1 + std::exp(-3 / std::sqrt(3.0))), 1e-15);
  EXPECT_NEAR(share_of_first(DType::f64, 0.1, 3), 1 / (1 + std::exp(-0.3)), 1e-15) << "0.1 is no float";
  EXPECT_EQ(share_of_first(DType::f32, 0, 3), share_of_first(DType::f32, 1 / std::sqrt(3.0f), 3));
  EXPECT_EQ(share_of_first(DType::f32, 0.1, 3), share_of_first(DType::f32, 0.1f, 3));
}

TEST(AttentionOp, F64AddsItsMaskInDouble) {
  const Runtime runtime({.seed = 1, .threads = 1});
  const Shape one{1, 1, 1, 1}, two{1, 2, 1, 1};
  const auto of = [](std::vector<double> values, const Shape& shape) { return Tensor::from(values, shape); };
  Variable q(of({0}, one), true), v(of({1, 0}, two), true);
  const Variable mask(of({0.1, 0}, {1, 2}));  // 0.1 is not exact in f32
  const Variable y = attention(q, Variable(of({1, -1}, two)), v, {}, mask);
  const double p = 1 / (1 + std::exp(-0.1));
  EXPECT_NEAR(y.value().at(0), p, 1e-15);
  backward(y, of({1}, one));
  EXPECT_NEAR(q.grad().at(0), 2 * p * (1 - p), 1e-15);
  EXPECT_NEAR(v.grad().at(0), p, 1e-15);
}

}  // namespace
}  // namespace binade::cpu
