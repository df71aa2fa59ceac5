#include <gtest/gtest.h>

#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/grad.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

Variable slope_of(const Variable& y, const Variable& x) { return grad(sum(y), x, {.create_graph = true}); }

Outputs mlp_penalty(const Case&, const Inputs& in) {
  const Variable h = linear(in["x"], in["w1"], in["b1"], {.activation = Activation::kGelu});
  const Variable slope = slope_of(linear(tanh(linear(h, in["w2"], in["b2"])), in["w3"]), in["x"]);
  return {{"y", mean(square(sqrt(sum(square(slope), {1})) - 1))}, {"slope", slope}};
}

Outputs conv_penalty(const Case&, const Inputs& in) {
  const Variable h = conv2d(in["x"], in["w1"], in["b1"], {.stride = 2, .padding = 1});
  const Variable y = conv2d(silu(group_norm(h, 2, in["weight"], in["bias"])), in["w2"]);
  const Variable slope = slope_of(square(y), in["x"]);
  return {{"y", mean(sum(square(slope), {1, 2, 3}))}, {"slope", slope}};
}

TEST(GoldenOps, GradientPenaltiesMatchPyTorch) {
  check_family("second", {{"mlp_penalty", mlp_penalty}, {"conv_penalty", conv_penalty}});
}

}  // namespace
}  // namespace binade::golden
