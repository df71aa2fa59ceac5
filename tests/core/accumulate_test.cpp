#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/runtime.h"
#include "binade/core/tensor.h"
#include "tests/core/op_check.h"

namespace binade {
namespace {

TEST(Accumulate, IsOneRoundedFloatAdditionAtEveryLevelAndDType) {
  const Runtime runtime({.seed = 1});
  const std::string_view before = cpu::level().isa;
  for (const std::string_view level : cpu::isa_levels()) {
    cpu::select_isa(level);
    for (const DType into : {DType::f32, DType::f16, DType::bf16})
      for (const DType from : {DType::f32, DType::f16, DType::bf16})
        for (const std::int64_t n : {1, 15, 16, 77}) {
          const Tensor start = test::noise({n}, 1, into, 3), x = test::noise({n}, 2, from, 3);
          Tensor sum = start.clone();
          accumulate(sum, x);
          for (std::int64_t i = 0; i < n; ++i) {
            const auto exact = static_cast<float>(start.at(i)) + static_cast<float>(x.at(i));
            EXPECT_EQ(sum.at(i), Tensor::scalar(exact, into).item()) << level << " " << n;
          }
        }
  }
  cpu::select_isa(before);
}

TEST(Accumulate, KeepsNaNAndInfinity) {
  const Runtime runtime({.seed = 1});
  const float inf = std::numeric_limits<float>::infinity();
  Tensor sum = Tensor::from(std::vector<float>{1, inf, inf, 0}, {4});
  accumulate(sum, Tensor::from(std::vector<float>{NAN, -inf, 1, inf}, {4}));
  EXPECT_TRUE(std::isnan(sum.at(0)) && std::isnan(sum.at(1)));
  EXPECT_EQ(sum.at(2), inf);
  EXPECT_EQ(sum.at(3), inf);
}

TEST(Accumulate, TakesChannelSlices) {
  const Runtime runtime({.seed = 1});
  Tensor sum = Tensor::full({3, 2}, 1);
  const Tensor wide = test::noise({3, 5}, 1, DType::f32);
  accumulate(sum, wide.channel_slice(1, 2));
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 2; ++c)
      EXPECT_FLOAT_EQ(static_cast<float>(sum.at(r * 2 + c)), static_cast<float>(1 + wide.at(r * 5 + 1 + c)));
}

}  // namespace
}  // namespace binade
