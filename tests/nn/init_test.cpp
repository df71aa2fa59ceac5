#include "binade/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/core/parallel.h"
#include "binade/core/runtime.h"
#include "binade/nn/linear.h"

namespace binade::nn {
namespace {

struct Moments {
  double mean = 0, std = 0, largest = 0;
};
Moments moments(const Parameter& p) {
  Moments m;
  const std::vector<double> v = p.value().to_vector<double>();
  for (const double x : v) m.mean += x / static_cast<double>(v.size());
  for (const double x : v) {
    m.std += std::pow(x - m.mean, 2) / static_cast<double>(v.size());
    m.largest = std::max(m.largest, std::abs(x));
  }
  m.std = std::sqrt(m.std);
  return m;
}

TEST(Init, ASkippedParameterIsZeroAndOthersKeepTheirValues) {
  const auto two = [](bool skip_first) {
    const Runtime runtime({.seed = 7});
    Parameter p(Tensor::full({40, 50}, 3)), q(Tensor::full({40, 50}, 3));
    {
      const init::SkipScope skip(skip_first);
      const init::SkipScope inside(false);  // must not end the effect of the enclosing scope
      init::kaiming_normal(p);
      init::constant(q, 2);
      EXPECT_EQ(q.value().to_vector<float>(), std::vector<float>(2000, 2));
    }
    init::xavier_uniform(q);
    return std::pair(p.value().to_vector<float>(), q.value().to_vector<float>());
  };
  const auto drawn = two(false), skipped = two(true);
  EXPECT_EQ(skipped.first, std::vector<float>(2000, 0));
  EXPECT_EQ(skipped.second, drawn.second);
}

TEST(Init, TruncatedNormalsStayInside) {
  const Runtime runtime({.seed = 3});
  Parameter p(Tensor::empty({300, 200}));
  init::trunc_normal(p, 0.5, 1, 0, 2);
  const Moments m = moments(p);
  // A standard normal within two deviations has the deviation 0.87962566; five standard errors of 60,000 values.
  EXPECT_NEAR(m.mean, 1, 5 * 0.44 / 245);
  EXPECT_NEAR(m.std, 0.5 * 0.87962566, 5 * 0.44 / 346);
  const std::vector<double> values = p.value().to_vector<double>();
  EXPECT_GE(*std::ranges::min_element(values), 0);
  EXPECT_LE(*std::ranges::max_element(values), 2);
  EXPECT_GT(*std::ranges::max_element(values), 1.99);
  init::trunc_normal(p, 1, 0, 4, 5);  // only values in the tail of the distribution
  EXPECT_GE(moments(p).mean, 4);
  EXPECT_THROW(init::trunc_normal(p, 0), ArgumentError);
  EXPECT_THROW(init::trunc_normal(p, 1, 0, 2, 1), ArgumentError);
  EXPECT_THROW(init::trunc_normal(p, 1, 0, 50, 60), ArgumentError);
}

TEST(Init, OrthogonalRowsOrColumns) {
  const Runtime runtime({.seed = 3});
  for (const Shape& shape : {Shape{5, 12}, Shape{12, 5}, Shape{6, 6}, Shape{4, 3, 3, 2}}) {
    Parameter p(Tensor::empty(shape));
    init::orthogonal(p, 2);
    const std::vector<double> w = p.value().to_vector<double>();
    const auto rows = static_cast<std::size_t>(shape[0]), columns = w.size() / rows;
    const bool by_rows = rows <= columns;
    const std::size_t count = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const auto at = [&](std::size_t vector, std::size_t i) {
      return by_rows ? w[vector * columns + i] : w[i * columns + vector];
    };
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        EXPECT_NEAR(product, a == b ? 4 : 0, 1e-5) << shape.to_string() << a << b;
      }
  }
  Parameter p(Tensor::full({2, 3}, 7));
  init::identity(p);
  EXPECT_EQ(p.value().to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  {
    const init::SkipScope skip;
    init::orthogonal(p);
  }
  EXPECT_EQ(p.value().to_vector<float>(), std::vector<float>(6, 0));
  Parameter vector(Tensor::empty({3}));
  EXPECT_THROW(init::orthogonal(vector), ShapeError);
  EXPECT_THROW(init::identity(vector), ShapeError);
}

TEST(Init, TheSeedDeterminesTheBitsAndEveryCallHasItsOwnStream) {
  std::vector<float> first, second, again;
  {
    const Runtime runtime({.seed = 7});
    Parameter p(Tensor::empty({40, 50})), q(Tensor::empty({40, 50}));
    init::normal(p);
    init::normal(q);
    first = p.value().to_vector<float>();
    second = q.value().to_vector<float>();
  }
  EXPECT_NE(first, second);
  {
    const Runtime runtime({.seed = 7, .threads = 3});
    Parameter p(Tensor::empty({40, 50}));
    init::normal(p);
    again = p.value().to_vector<float>();
  }
  EXPECT_EQ(first, again);
}

TEST(Init, SchemesHaveTheirVariance) {
  const Runtime runtime({.seed = 7});
  // 40,000 values: the standard error of a standard deviation is 0.35 %; 2 % is beyond five of them.
  Parameter p(Tensor::empty({100, 2, 2, 100}));
  EXPECT_EQ(init::fans(p.shape()).in, 400);
  EXPECT_EQ(init::fans(p.shape()).out, 400);
  init::kaiming_normal(p);
  EXPECT_NEAR(moments(p).std, std::sqrt(2.0 / 400), 0.02 * std::sqrt(2.0 / 400));
  init::kaiming_uniform(p, {.slope = std::sqrt(5.0)});
  EXPECT_NEAR(moments(p).std, std::sqrt(1.0 / 1200), 0.02 * std::sqrt(1.0 / 1200));
  EXPECT_LE(moments(p).largest, 1.0 / 20);
  init::xavier_normal(p);
  EXPECT_NEAR(moments(p).std, std::sqrt(2.0 / 800), 0.02 * std::sqrt(2.0 / 800));
  init::xavier_uniform(p);
  EXPECT_NEAR(moments(p).std, std::sqrt(2.0 / 800), 0.02 * std::sqrt(2.0 / 800));
  init::normal(p, 0.02, 1);
  EXPECT_NEAR(moments(p).mean, 1, 5 * 0.02 / 200);
  init::constant(p, 3);
  for (const float value : p.value().to_vector<float>()) ASSERT_EQ(value, 3);
  Parameter vector(Tensor::empty({4}));
  EXPECT_THROW(init::kaiming_normal(vector), ShapeError);
}

TEST(Init, LinearHasTheInitialRangeOfPyTorch) {
  const Runtime runtime({.seed = 7});
  Linear layer({.in = 100, .out = 400});
  for (const Parameter* p : {&layer.weight, &layer.bias}) {
    EXPECT_LE(moments(*p).largest, 0.1);
    EXPECT_GT(moments(*p).largest, 0.099);
    EXPECT_NEAR(moments(*p).mean, 0, 0.02);
  }
}

}  // namespace
}  // namespace binade::nn
