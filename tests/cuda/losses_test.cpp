#include "binade/autograd/functions/losses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/variable.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/step_context.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/device.h"
#include "tests/error_text.h"

// Data errors that a device reports late, and sizes around the borders of the division of work.
namespace binade {
namespace {

using test::error_of;

Tensor random(const Shape& shape, std::uint64_t tag) {
  const RandomStream stream{.seed = 6, .purpose = RngPurpose::kData, .step = tag};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(values, shape);
}

TEST(GpuLosses, ATargetOutOfRangeIsReportedAtTheNextWaitAsOnTheCpu) {
  const Tensor logits = random({5, 4}, 1);
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, -100, 7, 3, -1}, {5});
  const ModulePathScope inside("head");
  const std::string want = error_of<DataError>([&] { cross_entropy(Variable(logits), Variable(targets)); });
  EXPECT_NE(want.find("got 7 at (2)"), std::string::npos) << want;

  Variable x(logits.to(test_device()), true);
  const Variable loss = cross_entropy(x, Variable(targets.to(test_device())));
  EXPECT_EQ(error_of<DataError>([&] { loss.value().item(); }), want);
  EXPECT_TRUE(std::isnan(loss.value().item())) << "told once, and the loss says it still";
  backward(loss);
  const std::vector<float> g = x.grad().to_vector<float>();
  for (std::size_t row : {0u, 3u})
    for (std::size_t c = 0; c < 4; ++c) EXPECT_FALSE(std::isnan(g[4 * row + c]));
  for (std::size_t row : {2u, 4u})
    for (std::size_t c = 0; c < 4; ++c) EXPECT_TRUE(std::isnan(g[4 * row + c]));
  for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(g[4 + c], 0) << "ignored";
}

TEST(GpuLosses, BadDataOfCtcIsReportedAtTheNextWaitAsOnTheCpu) {
  const Tensor x = random({4, 2, 3}, 3);
  struct Bad {
    std::vector<std::int64_t> targets, inputs, lengths;
  };
  const std::vector<Bad> all{{{1, 2, 2, 5}, {4, 4}, {2, 2}},  // 5 is no class
                             {{1, 2, 2, 1}, {4, 5}, {2, 2}},  // 4 steps
                             {{1, 2, 2, 1}, {4, 4}, {2, -1}}};
  for (const Bad& bad : all) {
    const auto loss = [&](Device device) {
      const auto there = [&](const std::vector<std::int64_t>& values, const Shape& shape) {
        return Variable(Tensor::from(values, shape).to(device));
      };
      return ctc(Variable(x.to(device), true), there(bad.targets, {2, 2}), there(bad.inputs, {2}),
                 there(bad.lengths, {2}), {.reduction = Reduction::kNone});
    };
    const std::string want = error_of<DataError>([&] { loss(Device::cpu()); });
    const Variable each = loss(test_device());
    EXPECT_EQ(error_of<DataError>([&] { each.value().to_vector<double>(); }), want);
    const std::vector<double> values = each.value().to_vector<double>();
    EXPECT_TRUE(std::isfinite(values[0]) && std::isnan(values[1]));
  }
}

TEST(GpuLosses, AnIndexOutOfRangeIsReportedAtTheNextWaitAsOnTheCpu) {
  const Tensor weight = random({6, 3}, 2);
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{1, 5, 6, 0, -2, 9}, {2, 3});
  const std::string want = error_of<DataError>([&] { embedding(Variable(weight), Variable(indices)); });
  EXPECT_NE(want.find("got 6 at position (0, 2)"), std::string::npos) << want;

  Variable w(weight.to(test_device()), true);
  const Variable there(indices.to(test_device()));
  const Variable y = embedding(w, there);
  embedding(w, there);  // the first error is kept
  EXPECT_EQ(error_of<DataError>([&] { backend_of(test_device()).synchronize(Stream{test_device()}); }), want);
  const std::vector<float> rows = y.value().to_vector<float>(), table = weight.to_vector<float>();
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(rows[c], table[3 + c]);
    EXPECT_TRUE(std::isnan(rows[6 + c]));
    EXPECT_TRUE(std::isnan(rows[12 + c]));
  }
  backward(y, Tensor::full(y.shape(), 1, DType::f32, test_device()));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
}

/// Compares the gradient of an embedding with a loop, for `count` lookups of a table of `rows` rows. Every third lookup
/// is of row 17.
void expect_lookups_added(std::int64_t rows, std::int64_t cols, std::int64_t count) {
  const RandomStream stream{.seed = 4, .purpose = RngPurpose::kData};
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = i % 3 == 0 ? 17 : static_cast<std::int64_t>(stream.below(i, static_cast<std::uint64_t>(rows)));
  Tensor gy = random({count, cols}, 5);
  float* values = gy.mutable_data<float>();
  for (std::int64_t i = 0; i < gy.numel(); ++i) values[i] = std::round(values[i] * 256) / 256;  // exact in any order
  const Tensor where_to = Tensor::from(indices, {count});
  const auto gradient = [&](Device device) {
    Variable w(Tensor::zeros({rows, cols}, DType::f32, device), true);
    backward(embedding(w, Variable(where_to.to(device))), gy.to(device));
    return w.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(test_device()), gradient(Device::cpu())) << rows << " rows of " << cols << ", " << count;
}

TEST(GpuLosses, EmbeddingGradientsAreRightAtChunkBorders) {
  expect_lookups_added(5000, 8, 6007);  // the sort has three digits and three tiles
  expect_lookups_added(18, 3, 640);     // every row has several chunks, and the last one is full
  expect_lookups_added(18, 8, 63);
  expect_lookups_added(100, 5, 321);
  for (const std::int64_t count : {63, 64, 65, 127, 128, 129}) {  // a single row
    const Tensor zeros = Tensor::zeros({count}, DType::i64, test_device());
    Variable w(Tensor::zeros({1, 8}, DType::f32, test_device()), true);
    backward(embedding(w, Variable(zeros)), Tensor::full({count, 8}, 1, DType::f32, test_device()));
    EXPECT_EQ(w.grad().to_vector<double>(), std::vector<double>(8, static_cast<double>(count)));
  }
}

TEST(GpuLosses, LongSumsAreRight) {
  for (const std::int64_t n : {16383, 16385, 50001}) {
    const Tensor x = random({n}, 7), t = random({n}, 8);
    const auto loss = [&](Device device) { return mse(Variable(x.to(device)), Variable(t.to(device))).value().item(); };
    EXPECT_NEAR(loss(test_device()), loss(Device::cpu()), 1e-5);
    const auto overlap = [&](Device device) {
      return dice(Variable(x.to(device)), Variable(t.to(device)), 2 * static_cast<double>(n)).value().item();
    };
    EXPECT_NEAR(overlap(test_device()), overlap(Device::cpu()), 1e-5);
  }
}

TEST(GpuLosses, WideRowsAreRight) {
  for (const std::int64_t classes :
       {1024, 1032, 16392,
        16401}) {  // rows that fit into the registers of a warp, of a block, or do not fit; rows not in packs
    const Tensor logits = random({2, classes}, 9), targets = Tensor::from(std::vector<std::int32_t>{3, 1000}, {2});
    const auto both = [&](Device device) {
      Variable x(logits.to(device), true);
      const Variable loss = cross_entropy(x, Variable(targets.to(device)), {.label_smoothing = 0.1});
      backward(loss);
      std::vector<double> values = x.grad().to_vector<double>();
      values.push_back(loss.value().item());
      return values;
    };
    const std::vector<double> got = both(test_device()), want = both(Device::cpu());
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i])));
  }
}

TEST(GpuLosses, InfinitiesInWideRowsGiveTheResultsOfTheCpu) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::int64_t classes : {16392, 16401})
    for (const double smoothing : {0.0, 0.1}) {
      Tensor logits = random({5, classes}, 10);
      float* x = logits.mutable_data<float>();
      std::fill_n(x, classes, -300.0f);  // row 0: equal values, and some threads get only -infinity
      for (std::int64_t c = 0; c < classes; ++c)
        if (c / 8 % 512 == 7) x[c] = -kInf;
      std::fill_n(x + classes, classes, -kInf);  // row 1: only -infinity
      x[2 * classes + 77] = kInf;
      x[3 * classes + 5000] = std::numeric_limits<float>::quiet_NaN();
      const Tensor targets = Tensor::from(std::vector<std::int32_t>{3, 3, 77, 3, 3}, {5});
      for (std::int64_t row = 0; row < 5; ++row) {
        const auto both = [&](Device device) {
          Variable one(logits.narrow(row, 1).to(device), true);
          const Variable loss = cross_entropy(one, Variable(targets.narrow(row, 1).to(device)),
                                              {.label_smoothing = smoothing});
          backward(loss);
          std::vector<double> values = one.grad().to_vector<double>();
          values.push_back(loss.value().item());
          return values;
        };
        const std::vector<double> got = both(test_device()), want = both(Device::cpu());
        for (std::size_t i = 0; i < want.size(); ++i) {
          if (std::isnan(want[i]) || std::isinf(want[i]))
            ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << classes << ' ' << smoothing << ' ' << row << ' ' << i;
          else
            ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << row << ' ' << i;
        }
      }
    }
}

}  // namespace
}  // namespace binade
