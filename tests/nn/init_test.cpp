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
      const init::SkipScope inside(false);  // does not end the enclosing skip
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
