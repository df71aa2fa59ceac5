#include <gtest/gtest.h>

#include <map>
#include <string>

#include "binade/autograd/functions/matmul.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

const std::map<std::string, Activation> kActivations{{"none", Activation::kNone},
                                                     {"relu", Activation::kRelu},
                                                     {"gelu", Activation::kGelu},
                                                     {"gelu_tanh", Activation::kGeluTanh}};

TEST(GoldenOps, MatrixProductsMatchPyTorch) {
  check_family(
      "products",
      {
          {"matmul",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", matmul(in["a"], in["b"],
                                  {.transpose_a = c.flag("transpose_a"), .transpose_b = c.flag("transpose_b")})}};
           }},
          {"linear",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", linear(in["x"], in["w"], in["b"], {.activation = kActivations.at(c.text("activation"))})}};
           }},
      });
}

}  // namespace
}  // namespace binade::golden
