#include <gtest/gtest.h>

#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/pool.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

PoolOptions pool_options(const Case& c) {
  return {.kernel = c.integers("kernel")[0], .stride = c.integers("stride")[0], .padding = c.integers("padding")[0]};
}

Extent2 extent(const Case& c, const std::string& key) { return {c.integers(key)[0], c.integers(key)[1]}; }

TEST(GoldenOps, ConvolutionsMatchPyTorch) {
  check_family("convolutions", {
                                   {"conv2d",
                                    [](const Case& c, const Inputs& in) -> Outputs {
                                      return {{"y", conv2d(in["x"], in["w"], in["b"],
                                                           {.stride = extent(c, "stride"),
                                                            .padding = extent(c, "padding"),
                                                            .dilation = extent(c, "dilation"),
                                                            .groups = c.integer("groups")})}};
                                    }},
                                   {"conv_transpose2d",
                                    [](const Case& c, const Inputs& in) -> Outputs {
                                      return {{"y", conv_transpose2d(in["x"], in["w"], in["b"],
                                                                     {.stride = extent(c, "stride"),
                                                                      .padding = extent(c, "padding"),
                                                                      .output_padding = extent(c, "output_padding"),
                                                                      .groups = c.integer("groups")})}};
                                    }},
                               });
}

TEST(GoldenOps, PoolingAndUpsamplingMatchPyTorch) {
  check_family("pooling", {
                              {"max_pool2d",
                               [](const Case& c, const Inputs& in) -> Outputs {
                                 return {{"y", max_pool2d(in["x"], pool_options(c))}};
                               }},
                              {"avg_pool2d",
                               [](const Case& c, const Inputs& in) -> Outputs {
                                 return {{"y", avg_pool2d(in["x"], pool_options(c))}};
                               }},
                              {"upsample_nearest",
                               [](const Case& c, const Inputs& in) -> Outputs {
                                 return {{"y", upsample(in["x"], c.integer("scale"), UpsampleMode::kNearest)}};
                               }},
                              {"upsample_bilinear",
                               [](const Case& c, const Inputs& in) -> Outputs {
                                 return {{"y", upsample(in["x"], c.integer("scale"), UpsampleMode::kBilinear)}};
                               }},
                          });
}

}  // namespace
}  // namespace binade::golden
