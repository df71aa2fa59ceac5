#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/order.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"
#include "tests/error_text.h"
#include "tests/tested_device.h"

// Functions that move, sort, count and search. The conformance cases test floating values; these tests are for
// integers, bools, positions, equal elements, NaN and errors. They run on the CPU, or on the device that
// BINADE_TEST_DEVICE names.
namespace binade::conformance {
namespace {

using test::error_of;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kWhole[] = {DType::i64, DType::i32, DType::u8, DType::boolean};

Tensor there(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32) {
  return Tensor::from(values, shape).to(dtype).to(tested_device());
}
Tensor whole(const std::vector<double>& values, DType dtype = DType::i64) {
  return there(values, Shape{static_cast<std::int64_t>(values.size())}, dtype);
}
using Values = std::vector<double>;
Values values_of(const Variable& x) { return x.value().to_vector<double>(); }
/// The text of the error of `f` or, after synchronization, of the device (decision 0019).
template <class F>
std::string words(F&& f) {
  return error_of([&] { values_of(f()); });
}

TEST(WholeNumbers, AreMovedWithoutAChange) {
  for (const DType dtype : kWhole) {
    const Variable x = there({0, 1, 1, 0, 1, 1}, {2, 3}, dtype);
    const auto expect = [&](const Variable& y, const Values& wanted) {
      EXPECT_EQ(y.dtype(), dtype) << name_of(dtype);
      EXPECT_EQ(values_of(y), wanted) << name_of(dtype);
    };
    expect(flip(x, {1}), {1, 1, 0, 1, 1, 0});
    expect(roll(x, {1}, {1}), {1, 0, 1, 1, 0, 1});
    expect(pad(x, {1, 0}, PadMode::kConstant, 1), {1, 0, 1, 1, 1, 0, 1, 1});
    expect(repeat(x, {1, 2}), {0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
    expect(diag_embed(x, 0), {0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1});
    expect(gather(x, 1, there({2, 0}, {2, 1}, DType::i64)), {1, 0});
    expect(index_select(x, 1, whole({0, 0}, DType::i32)), {0, 0, 0, 0});
    expect(index_fill(x, 1, whole({2}), 0), {0, 1, 0, 0, 1, 0});
    expect(masked_fill(x, whole({1, 0, 0}, DType::boolean), 1), {1, 1, 1, 1, 1, 1});
    expect(masked_select(x, whole({1, 1, 0}, DType::u8)), {0, 1, 0, 1});
    expect(stack({x, x}), {0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
    expect(sort(x, 1).values, {0, 1, 1, 0, 1, 1});
  }
}

TEST(WholeNumbers, AreAddedExactly) {
  const Variable index = whole({0, 0, 1});
  const Tensor one = Tensor::full({3}, 1, DType::i64, tested_device());
  const Tensor base = Tensor::from(std::vector<std::int64_t>{9007199254740993, 0}, {2}).to(tested_device());
  const Tensor sum = scatter_add(base, 0, index, one).value().on_host();
  EXPECT_EQ(sum.data<std::int64_t>()[0], 9007199254740995);
  EXPECT_EQ(values_of(scatter_add(whole({250, 0}, DType::u8), 0, index, whole({3, 4, 5}, DType::u8))), (Values{1, 5}));
  EXPECT_EQ(values_of(scatter_reduce(whole({0, 0}), 0, index, whole({-3, -2, 5}), ScatterReduce::kMean, false)),
            (Values{-3, 5}));
  EXPECT_EQ(values_of(scatter_reduce(whole({9, 9}), 0, index, whole({7, -2, 5}), ScatterReduce::kAmax, false)),
            (Values{7, 5}));
  EXPECT_EQ(values_of(cumsum(whole({1, 1, 0, 1}, DType::boolean), 0)), (Values{1, 2, 2, 3}));
  EXPECT_EQ(cumsum(whole({1}, DType::u8), 0).dtype(), DType::i64);
  EXPECT_EQ(values_of(cumprod(whole({2, 3, -4}, DType::i32), 0)), (Values{2, 6, -24}));
}

TEST(WholeNumbers, AreAddedTimesAWholeAlpha) {
  const Variable index = whole({0, 0, 1});
  const Tensor odd = Tensor::from(std::vector<std::int64_t>{9007199254740993, 0, 1}, {3}).to(tested_device());
  const Tensor sum = index_add(whole({1, 1}), 0, index, odd, -2).value().on_host();
  EXPECT_EQ(sum.data<std::int64_t>()[0], 1 - 2 * 9007199254740993);
  EXPECT_EQ(sum.data<std::int64_t>()[1], -1);
  for (const DType dtype : {DType::i32, DType::u8})
    EXPECT_EQ(values_of(index_add(whole({5, 6}, dtype), 0, index, whole({1, 2, 3}, dtype), -1)), (Values{2, 3}));
  EXPECT_EQ(values_of(index_add(whole({0, 0}, DType::boolean), 0, index, whole({0, 1, 0}, DType::boolean), 3)),
            (Values{1, 0}));
  for (const double alpha : {0.5, kNaN, 0x1p63})
    EXPECT_NE(words([&] {
                return index_add(whole({0, 0}), 0, index, odd, alpha);
              }).find("index_add: wanted a whole alpha for a source of i64, got"),
              std::string::npos);
}

TEST(Sorting, KeepsTheOrderOfEqualElements) {
  const Variable x = there({2, 1, 2, 1, 1, 2}, {6});
  EXPECT_EQ(values_of(argsort(x)), (Values{1, 3, 4, 0, 2, 5}));
  EXPECT_EQ(values_of(argsort(x, 0, true)), (Values{0, 2, 5, 1, 3, 4}));
  EXPECT_EQ(values_of(topk(x, 4).indices), (Values{0, 2, 5, 1}));
  EXPECT_EQ(values_of(topk(x, 2, 0, false).indices), (Values{1, 3}));
  std::vector<double> many;  // long enough for a radix sort, with few distinct values
  for (int i = 0; i < 9000; ++i) many.push_back((i * 7919) % 13 - 6);
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::i32, DType::bf16})
    for (const bool descending : {false, true}) {
      const Values got = values_of(argsort(whole(many, dtype), 0, descending));
      for (std::size_t i = 1; i < got.size(); ++i) {
        const double a = many[static_cast<std::size_t>(got[i - 1])], b = many[static_cast<std::size_t>(got[i])];
        ASSERT_TRUE((descending ? a > b : a < b) || (a == b && got[i - 1] < got[i])) << name_of(dtype) << " at " << i;
      }
    }
}

TEST(Sorting, PutsNaNLastAndTakesZerosAsEqual) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Variable x = there({kNaN, 0, -infinity, -0.0, infinity, -kNaN, -1}, {7});
  EXPECT_EQ(values_of(argsort(x)), (Values{2, 6, 1, 3, 4, 0, 5}));
  EXPECT_EQ(values_of(argsort(x, 0, true)), (Values{0, 5, 4, 1, 3, 6, 2}));
  EXPECT_EQ(values_of(cummax(there({1, 3, 3, kNaN, 5, kNaN}, {6}), 0).indices), (Values{0, 1, 2, 3, 3, 5}));
  EXPECT_EQ(values_of(cummin(there({1, 3, 1, 0}, {4}), 0).indices), (Values{0, 0, 2, 3}));
  EXPECT_TRUE(std::isnan(median(there({1, kNaN, 2}, {3})).item()));
  EXPECT_EQ(values_of(median(there({4, 1, 3, 2}, {2, 2}), 1).values), (Values{1, 2}));
  EXPECT_EQ(values_of(kthvalue(there({4, 1, 3}, {3}), 2).indices), (Values{2}));
}

TEST(Counting, UniqueValuesWithInverseAndCounts) {
  const UniqueResult all = unique(there({3, 1, 2, 1, 3, 1}, {2, 3}));
  EXPECT_EQ(values_of(all.values), (Values{1, 2, 3}));
  EXPECT_EQ(values_of(all.inverse), (Values{2, 0, 1, 0, 2, 0}));
  EXPECT_EQ(all.inverse.shape(), (Shape{2, 3}));
  EXPECT_EQ(values_of(all.counts), (Values{3, 1, 2}));
  const UniqueResult runs = unique_consecutive(whole({1, 1, 2, 1, 1, 1}));
  EXPECT_EQ(values_of(runs.values), (Values{1, 2, 1}));
  EXPECT_EQ(values_of(runs.inverse), (Values{0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(values_of(runs.counts), (Values{2, 1, 3}));
  EXPECT_EQ(unique(there({kNaN, 1, kNaN}, {3})).values.dim(0), 3);
  EXPECT_EQ(unique(there({}, {0})).values.dim(0), 0);
}

TEST(Counting, OccurrencesAndHistograms) {
  EXPECT_EQ(values_of(bincount(whole({1, 3, 1, 0}))), (Values{1, 2, 0, 1}));
  EXPECT_EQ(values_of(bincount(whole({1, 1}, DType::u8), {}, 4)), (Values{0, 2, 0, 0}));
  EXPECT_EQ(values_of(bincount(whole({1, 0, 1}), there({0.5, 2, 0.25}, {3}))), (Values{2, 0.75}));
  EXPECT_EQ(values_of(bincount(whole({}))), Values{});
  EXPECT_EQ(values_of(histc(there({0, 0.5, 1, 2, 4, 5, kNaN}, {7}), 4, 0, 4)), (Values{2, 1, 1, 1}));
  EXPECT_EQ(values_of(histc(there({1, 2, 3}, {3}), 2)), (Values{1, 2}));
  const Variable many = Tensor::full({(1 << 24) + 2}, 1, DType::f16, tested_device());
  EXPECT_EQ(values_of(histc(many, 1, 0, 2)), Values{16777218}) << "a sum of ones in f32 ends at 2^24";
  EXPECT_NE(words([] {
              return bincount(whole({0, -2}));
            }).find("bincount: wanted numbers of 0 or more, got -2 at position (1)"),
            std::string::npos);
}

TEST(Searching, PositionsInSortedRows) {
  const Variable sorted = there({1, 3, 3, 5}, {4}), values = there({0, 3, 6, kNaN}, {4});
  EXPECT_EQ(values_of(searchsorted(sorted, values)), (Values{0, 1, 4, 4}));
  EXPECT_EQ(values_of(searchsorted(sorted, values, true)), (Values{0, 3, 4, 4}));
  const Variable with_nan = there({1, 3, kNaN, kNaN, kNaN}, {5});  // NaN comes after all numbers
  EXPECT_EQ(values_of(searchsorted(with_nan, values)), (Values{0, 1, 2, 5}));
  EXPECT_EQ(values_of(searchsorted(with_nan, values, true)), (Values{0, 2, 2, 5}));
  EXPECT_EQ(values_of(bucketize(there({2, 9, kNaN}, {3}, DType::f64), there({1, kNaN}, {2}, DType::f64))),
            (Values{1, 1, 2}));
  EXPECT_EQ(values_of(searchsorted(there({1, 2, 5, 7}, {2, 2}), there({2, 6}, {2, 1}))), (Values{1, 1}));
  EXPECT_EQ(values_of(bucketize(there({1, 2, 3}, {3}), whole({1, 3}))), (Values{0, 1, 1}));
  EXPECT_EQ(values_of(nonzero(there({0, 1, kNaN, 0, 0, -2}, {2, 3}))), (Values{0, 1, 0, 2, 1, 2}));
  EXPECT_EQ(nonzero(there({0, 0}, {2})).shape(), (Shape{0, 1}));
}

TEST(Indices, OutOfRangeAreNamed) {
  const Variable x = there({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto holds = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  holds(words([&] {
          return gather(x, 1, there({0, 3}, {2, 1}, DType::i64));
        }),
        "gather: wanted indices in [0, 3) along axis 1, got 3 at position (1, 0)");
  holds(words([&] {
          return index_select(x, 0, whole({0, -1}));
        }),
        "index_select: wanted indices in [0, 2) along axis 0, got -1 at position (1)");
  holds(words([&] {
          return index_add(x, 0, whole({5}), there({1, 1, 1}, {1, 3}));
        }),
        "index_add: wanted indices in [0, 2) along axis 0, got 5 at position (0)");
  holds(words([&] { return scatter(x, 1, there({7}, {1, 1}, DType::i64), 1); }), "scatter: wanted indices in [0, 3)");
  holds(words([&] { return take(x, whole({6})); }),
        "take: wanted indices in [-6, 6) for axis 0, got 6 at position (0)");
  holds(words([&] {
          return index(x, {whole({0}), whole({-4})});
        }),
        "index: wanted indices in [-3, 3) for axis 1, got -4");
  const Tensor least = Tensor::from(std::vector{std::numeric_limits<std::int64_t>::min()}, {1}).to(tested_device());
  holds(words([&] {
          return index(x, {least, whole({0})});
        }),
        "index: wanted indices in [-2, 2) for axis 0, got -9223372036854775808");
  holds(words([&] { return gather(x, 1, there({0}, {1}, DType::i64)); }), "gather: wanted an index of rank 2");
  holds(words([&] { return gather(x, 1, x); }), "gather: wanted indices of i64 or i32, got f32");
  holds(words([&] {
          return scatter_add(x, 0, there({0}, {1, 1}, DType::i64), whole({1}));
        }),
        "scatter_add: wanted a source of the tensor's dtype f32, got i64");
  holds(words([&] {
          return pad(whole({1}), {1, 0}, PadMode::kConstant, 1.5);
        }),
        "pad: wanted a value that i64 holds, got 1.5");
  holds(words([&] { return masked_fill(whole({1}, DType::u8), whole({1}, DType::boolean), 256); }),
        "masked_fill: wanted a value that u8 holds, got 256");
}

/// An index may be memory of the user. If the user writes it after forward, no version shows this.
TEST(Indices, AreCheckedAgainInBackward) {
  const auto fails = [](auto&& run, const std::string& part) {
    std::vector<std::int64_t> memory{1, 0};
    const Variable x(Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}), true);
    const Variable y = run(x, Variable(Tensor::from_blob(memory.data(), {2}, DType::i64)));
    memory[1] = 70;
    const std::string text = error_of<DataError>([&] { backward(sum(y)); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  using V = const Variable&;
  const Variable source(Tensor::zeros({2, 2}), true);
  fails([](V x, V i) { return index_select(x, 0, i); }, "index_select: wanted indices in [0, 2) along axis 0, got 70");
  fails([](V x, V i) { return gather(x, 0, reshape(i, {1, 2})); }, "gather: wanted indices in [0, 2)");
  fails([](V x, V i) { return embedding(x, i); }, "embedding: wanted indices in [0, 2)");
  fails([&](V x, V i) { return index_add(x, 0, i, source); }, "index_add: wanted indices in [0, 2)");
  fails([&](V x, V i) { return index_copy(x, 0, i, source); }, "index_copy: wanted indices in [0, 2)");
  for (const ScatterReduce reduce : {ScatterReduce::kMean, ScatterReduce::kAmax})
    fails([&](V x, V i) { return index_reduce(x, 0, i, source, reduce); }, "index_reduce: wanted indices in [0, 2)");
}

TEST(Parts, AreCutAndJoined) {
  const Variable x = there({0, 1, 2, 3, 4, 5, 6}, {7});
  const auto extents = [](const std::vector<Variable>& parts) {
    std::vector<std::int64_t> all;
    for (const Variable& part : parts) all.push_back(part.dim(0));
    return all;
  };
  using Extents = std::vector<std::int64_t>;
  EXPECT_EQ(extents(split(x, 3)), (Extents{3, 3, 1}));
  EXPECT_EQ(extents(split(x, {2, 0, 5})), (Extents{2, 0, 5}));
  EXPECT_EQ(extents(chunk(x, 4)), (Extents{2, 2, 2, 1}));
  EXPECT_EQ(extents(chunk(x, 5)), (Extents{2, 2, 2, 1}));
  EXPECT_EQ(extents(tensor_split(x, 3)), (Extents{3, 2, 2}));
  EXPECT_EQ(extents(tensor_split(x, std::vector<std::int64_t>{2, 2, -1})), (Extents{2, 0, 4, 1}));
  EXPECT_EQ(unbind(x).size(), 7u);
  EXPECT_EQ(unbind(x)[3].shape(), Shape{});
  EXPECT_EQ(hstack(std::vector<Variable>{x, x}).shape(), (Shape{14}));
  EXPECT_EQ(vstack(std::vector<Variable>{x, x}).shape(), (Shape{2, 7}));
  EXPECT_EQ(movedim(there({}, {2, 0, 3}), {0}, {2}).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(squeeze(unsqueeze(unsqueeze(x, 0), -1)).shape(), (Shape{7}));
  EXPECT_EQ(unflatten(there({0, 1, 2, 3, 4, 5}, {6}), 0, {2, -1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(values_of(select(there({1, 2, 3, 4}, {2, 2}), 1, -1)), (Values{2, 4}));
  EXPECT_EQ(values_of(repeat_interleave(x, whole({0, 2, 0, 0, 1, 0, 0}), 0)), (Values{1, 1, 4}));
  EXPECT_EQ(values_of(bitcast(there({1, -2}, {2}), DType::i32)), (Values{1065353216, -1073741824}));
  EXPECT_EQ(bitcast(there({1, 2, 3, 4}, {2, 2}), DType::i64).shape(), (Shape{2, 1}));
}

/// Cumulative products with factors of 0. A gradient formula that divides by the factors would fail.
TEST(Gradients, OfProductsWithZeros) {
  const std::vector<double> x{2, 0, 3, 0, 5}, gy{1, 10, 100, 1000, 10000};
  Values wanted(5);
  for (std::size_t k = 0; k < 5; ++k)
    for (std::size_t j = k; j < 5; ++j) {
      double others = 1;
      for (std::size_t i = 0; i <= j; ++i) others *= i == k ? 1 : x[i];
      wanted[k] += gy[j] * others;
    }
  const Variable leaf(there(x, {5}), true);
  backward(cumprod(leaf, 0), there(gy, {5}));
  EXPECT_EQ(leaf.grad().to_vector<double>(), wanted);
  const Variable self(there({2}, {1}), true), terms(there({0, 3, 5}, {3}), true);
  backward(scatter_reduce(self, 0, whole({0, 0, 0}), terms, ScatterReduce::kProd), there({1}, {1}));
  EXPECT_EQ(self.grad().to_vector<double>(), Values{0});
  EXPECT_EQ(terms.grad().to_vector<double>(), (Values{30, 0, 0}));
}

/// Totals are kept in double. Rounded to f32 first, these totals would become ties of the 16-bit dtype.
TEST(CumulativeSums, AreRoundedOnce) {
  const auto last = [](const std::vector<double>& x, DType dtype) {
    const PolicyScope scope(PrecisionPolicy{}.with("*", dtype));
    return values_of(cumsum(whole(x, dtype), 0)).back();
  };
  EXPECT_EQ(last({2048, 1, 0x1p-13}, DType::f16), 2050);
  EXPECT_EQ(last({256, 1, 0x1p-16}, DType::bf16), 258);
}

/// If several values are assigned to a position, the last one stays, and it alone gets the gradient.
TEST(Gradients, OfAnAssignmentGoToTheLastValue) {
  const Variable x(there({1, 2}, {2}), true), source(there({5, 6, 7}, {3}), true);
  const Variable y = scatter(x, 0, whole({1, 1, 1}), source);
  EXPECT_EQ(values_of(y), (Values{1, 7}));
  backward(y, there({10, 20}, {2}));
  EXPECT_EQ(x.grad().to_vector<double>(), (Values{10, 0}));
  EXPECT_EQ(source.grad().to_vector<double>(), (Values{0, 0, 20}));
}

/// Contributions are added in input order: 2^24 + 1 - 2^24 + 1 in f32 is 1 in this order and 2 in others.
TEST(Scattering, AddsInInputOrder) {
  const Variable zero = there({0}, {1}), terms = there({16777216, 1, -16777216, 1}, {4});
  EXPECT_EQ(scatter_add(zero, 0, whole({0, 0, 0, 0}), terms).item(), 1);
  EXPECT_EQ(index_add(zero, 0, whole({0, 0, 0, 0}), terms).item(), 1);
}

}  // namespace
}  // namespace binade::conformance
