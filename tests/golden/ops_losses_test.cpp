#include <gtest/gtest.h>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

TEST(GoldenOps, LossesMatchPyTorch) {
  check_family("losses", {
                             {"cross_entropy",
                              [](const Case& c, const Inputs& in) -> Outputs {
                                return {{"y", cross_entropy(in["x"], in["target"],
                                                            {.ignore_index = c.integer("ignore_index"),
                                                             .label_smoothing = c.number("label_smoothing")})}};
                              }},
                             {"bce_with_logits",
                              [](const Case&, const Inputs& in) -> Outputs {
                                return {{"y", bce_with_logits(in["x"], in["target"])}};
                              }},
                             {"bce",
                              [](const Case&, const Inputs& in) -> Outputs {
                                return {{"y", bce(in["x"], in["target"])}};
                              }},
                             {"dice",
                              [](const Case& c, const Inputs& in) -> Outputs {
                                return {{"y", dice(in["x"], in["target"], c.number("smooth"))}};
                              }},
                             {"dice_with_logits",
                              [](const Case& c, const Inputs& in) -> Outputs {
                                return {{"y", dice(sigmoid(in["x"]), in["target"], c.number("smooth"))}};
                              }},
                             {"mse",
                              [](const Case&, const Inputs& in) -> Outputs {
                                return {{"y", mse(in["x"], in["target"])}};
                              }},
                             {"l1",
                              [](const Case&, const Inputs& in) -> Outputs {
                                return {{"y", l1(in["x"], in["target"])}};
                              }},
                             {"huber",
                              [](const Case& c, const Inputs& in) -> Outputs {
                                return {{"y", huber(in["x"], in["target"], c.number("delta"))}};
                              }},
                             {"kl_div",
                              [](const Case&, const Inputs& in) -> Outputs {
                                return {{"y", kl_div(in["x"], in["target"], Reduction::kBatchMean)}};
                              }},
                         });
}

}  // namespace
}  // namespace binade::golden
