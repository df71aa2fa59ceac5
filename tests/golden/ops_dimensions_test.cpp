#include <gtest/gtest.h>

#include "binade/nn/batch_norm.h"
#include "binade/nn/conv1d.h"
#include "binade/nn/conv3d.h"
#include "binade/nn/image_layers.h"
#include "binade/nn/pooling.h"
#include "tests/golden/op_case.h"

/// Convolutions, pooling and norms of sequences and volumes compared with PyTorch's (golden_dimensions.py).
namespace binade::golden {
namespace {

Extent3 extent(const Case& c, const std::string& key) {
  const std::vector<std::int64_t> list = c.integers(key);
  return {list[0], list[1], list[2]};
}

Function pooled(Variable (*pool)(const Variable&, const Pool1dOptions&)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    return {{"y", pool(in["x"], {.kernel = c.integer("kernel"),
                                 .stride = c.integer("stride"),
                                 .padding = c.integer("padding"),
                                 .count_include_pad = c.has_param("include") && c.integer("include") == 1})}};
  };
}

Function pooled(Variable (*pool)(const Variable&, const Pool3dOptions&)) {
  return [=](const Case& c, const Inputs& in) -> Outputs {
    return {{"y", pool(in["x"], {.kernel = extent(c, "kernel"),
                                 .stride = extent(c, "stride"),
                                 .padding = extent(c, "padding"),
                                 .count_include_pad = c.has_param("include") && c.integer("include") == 1})}};
  };
}

Function adaptive(Variable (*pool)(const Variable&, std::int64_t)) {
  return [=](const Case& c, const Inputs& in) -> Outputs { return {{"y", pool(in["x"], c.integer("size"))}}; };
}

Function adaptive(Variable (*pool)(const Variable&, Extent3)) {
  return [=](const Case& c, const Inputs& in) -> Outputs { return {{"y", pool(in["x"], extent(c, "size"))}}; };
}

/// A norm with the weight and bias of the case, in training.
template <class Norm>
Outputs norm(Norm&& module, const Inputs& in) {
  static_cast<Variable&>(module.weight) = in["weight"];
  static_cast<Variable&>(module.bias) = in["bias"];
  return {{"y", module(in["x"])}};
}

TEST(GoldenOps, SequencesAndVolumesMatchPyTorch) {
  check_family(
      "dimensions",
      {
          {"conv1d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", conv1d(in["x"], in["w"], in["b"],
                                  {.stride = c.integer("stride"),
                                   .padding = c.integer("padding"),
                                   .dilation = c.integer("dilation"),
                                   .groups = c.integer("groups")})}};
           }},
          {"conv3d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", conv3d(in["x"], in["w"], in["b"],
                                  {.stride = extent(c, "stride"),
                                   .padding = extent(c, "padding"),
                                   .dilation = extent(c, "dilation"),
                                   .groups = c.integer("groups")})}};
           }},
          {"conv_transpose1d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", conv_transpose1d(in["x"], in["w"], in["b"],
                                            {.stride = c.integer("stride"),
                                             .padding = c.integer("padding"),
                                             .output_padding = c.integer("output_padding"),
                                             .dilation = c.integer("dilation"),
                                             .groups = c.integer("groups")})}};
           }},
          {"conv_transpose3d",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", conv_transpose3d(in["x"], in["w"], in["b"],
                                            {.stride = extent(c, "stride"),
                                             .padding = extent(c, "padding"),
                                             .output_padding = extent(c, "output_padding"),
                                             .dilation = extent(c, "dilation"),
                                             .groups = c.integer("groups")})}};
           }},
          {"max_pool1d", pooled(max_pool1d)},
          {"avg_pool1d", pooled(avg_pool1d)},
          {"max_pool3d", pooled(max_pool3d)},
          {"avg_pool3d", pooled(avg_pool3d)},
          {"adaptive_max_pool1d", adaptive(adaptive_max_pool1d)},
          {"adaptive_avg_pool1d", adaptive(adaptive_avg_pool1d)},
          {"adaptive_max_pool3d", adaptive(adaptive_max_pool3d)},
          {"adaptive_avg_pool3d", adaptive(adaptive_avg_pool3d)},
          {"batch_norm1d", [](const Case&, const Inputs& in) { return norm(nn::BatchNorm1d({.channels = 3}), in); }},
          {"batch_norm3d", [](const Case&, const Inputs& in) { return norm(nn::BatchNorm3d({.channels = 3}), in); }},
          {"instance_norm1d",
           [](const Case&, const Inputs& in) { return norm(nn::InstanceNorm1d({.channels = 3, .affine = true}), in); }},
          {"instance_norm3d",
           [](const Case&, const Inputs& in) { return norm(nn::InstanceNorm3d({.channels = 3, .affine = true}), in); }},
      });
}

}  // namespace
}  // namespace binade::golden
