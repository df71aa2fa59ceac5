#include <gtest/gtest.h>

#include "autograd/functions/pool.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

PoolOptions pool_options(const Case& c) {
  return {.kernel = c.integers("kernel")[0], .stride = c.integers("stride")[0], .padding = c.integers("padding")[0]};
}

TEST(GoldenOps, PoolingAndUpsamplingMatchPyTorch) {
  check_family("pooling", {
    {"max_pool2d", [](const Case& c, const Inputs& in) -> Outputs { return {{"y", max_pool2d(in["x"], pool_options(c))}}; }},
    {"avg_pool2d", [](const Case& c, const Inputs& in) -> Outputs { return {{"y", avg_pool2d(in["x"], pool_options(c))}}; }},
    {"upsample_nearest", [](const Case& c, const Inputs& in) -> Outputs {
       return {{"y", upsample(in["x"], c.integer("scale"), UpsampleMode::kNearest)}};
     }},
    {"upsample_bilinear", [](const Case& c, const Inputs& in) -> Outputs {
       return {{"y", upsample(in["x"], c.integer("scale"), UpsampleMode::kBilinear)}};
     }},
  });
}

}  // namespace
}  // namespace binade::golden
