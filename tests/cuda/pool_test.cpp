#include "binade/autograd/functions/pool.h"

#include <gtest/gtest.h>

#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

namespace binade {
namespace {

/// Channels in packs and single channels; windows that overlap, extend beyond the image, or have more positions than a
/// byte can number.
struct Sizes {
  const char* name;
  Shape x;
  PoolOptions p = {};
  std::int64_t slice = 0;
};

const Sizes kSizes[] = {
    {"has_aligned_rows", {2, 9, 8, 24}},
    {"overlapping", {1, 11, 9, 16}, {.kernel = 3, .stride = 2, .padding = 1}},
    {"dense", {1, 9, 10, 8}, {.kernel = 3, .stride = 1, .padding = 1, .count_include_pad = false}},
    {"one_by_one", {2, 7, 9, 13}, {.kernel = {2, 3}, .stride = {1, 2}}},
    {"large_kernel", {1, 20, 19, 8}, {.kernel = 17, .stride = 3, .padding = 2}},
    {"far_apart", {1, 12, 13, 8}, {.kernel = 2, .stride = 5}},
    {"slice_in_packs", {1, 6, 8, 16}, {}, 8},
    {"slice_across", {1, 6, 8, 16}, {}, 3},
    {"many_blocks", {3, 64, 65, 16}},
};

class CudaPool : public testing::TestWithParam<Sizes> {};

TEST_P(CudaPool, MaxAgreesWithTheCpuInDouble) {
  const Sizes& s = GetParam();
  expect_agreement({{random_values(s.x, 1), false, s.slice}},
                   [&](const std::vector<Variable>& x) { return max_pool2d(x[0], s.p); });
}
TEST_P(CudaPool, AverageAgreesWithTheCpuInDouble) {
  const Sizes& s = GetParam();
  expect_agreement({{random_values(s.x, 1), false, s.slice}},
                   [&](const std::vector<Variable>& x) { return avg_pool2d(x[0], s.p); });
}
TEST_P(CudaPool, UpsamplingAgreesWithTheCpuInDouble) {
  const Sizes& s = GetParam();
  for (const UpsampleMode mode : {UpsampleMode::kNearest, UpsampleMode::kBilinear})
    expect_agreement({{random_values(s.x, 1), false, s.slice}},
                     [&](const std::vector<Variable>& x) { return upsample_to(x[0], s.x[1] + 5, s.x[2] * 2, mode); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaPool, testing::ValuesIn(kSizes), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace binade
