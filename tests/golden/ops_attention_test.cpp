#include <gtest/gtest.h>

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/reduce.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

TEST(GoldenOps, AttentionAndSoftmaxMatchPyTorch) {
  check_family(
      "attention",
      {
          {"softmax",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", softmax(in["x"], static_cast<int>(c.integer("axis")))}};
           }},
          {"log_softmax",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", log_softmax(in["x"], static_cast<int>(c.integer("axis")))}};
           }},
          {"attention",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", attention(in["q"], in["k"], in["v"], {.causal = c.flag("causal")}, in["mask"])}};
           }},
      },
      // The scale of the logits is stored as f32 even if everything else is f64, and 1 / sqrt(3) in f32 is off by 1e-8.
      {.rtol = 1e-7, .share = 1e-8},
      // The gradient of a softmax over one key is 0. It is computed as the difference of two equal terms below 16.
      {.rtol = 1e-5, .share = 1e-6, .absolute = 0x1p-20});
}

}  // namespace
}  // namespace binade::golden
