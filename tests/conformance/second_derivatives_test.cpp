#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "binade/autograd/gradcheck.h"
#include "binade/core/error.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/max_pool2d.h"
#include "tests/conformance/case.h"

/// The recorded derivative (autograd/derivatives/) of every op x shape class: equal to backward, and its own derivative
/// compared with differences.
namespace binade::conformance {
namespace {

class SecondDerivatives : public testing::TestWithParam<const Case*> {
 protected:
  const Case& c() const { return *GetParam(); }
  GradcheckResult check() const {
    std::int64_t most = 0;
    for (const Tensor& x : c().inputs) most = std::max(most, x.numel());
    return gradgradcheck(c().run, c().inputs,
                         {.rtol = 2e-6, .atol = 1e-6, .max_elements = most > 500 ? 2 : 6, .device = tested_device()});
  }
  bool is(const OpInfo& op) const { return c().info == &op; }
};

TEST_P(SecondDerivatives, AgreeWithDifferencesOrAreRefusedByName) {
  const bool has_none = is(ops::Dice::info) || is(ops::MaxPool2d::info);
  try {
    const GradcheckResult result = check();
    EXPECT_TRUE(result.passed) << result.message;
    EXPECT_FALSE(has_none) << "a derivative that the list in docs/second-derivatives.md lacks";
  } catch (const AutogradError& error) {
    const std::string words = error.what();
    EXPECT_TRUE(has_none || is(ops::Attention::info)) << words;  // attention: with dropout
    EXPECT_EQ(words.find(c().info->name), 0u) << words;
    EXPECT_NE(words.find("(create_graph): "), std::string::npos) << words;
  }
}

std::vector<const Case*> smooth_cases() {
  std::vector<const Case*> cases;
  for (const Case& c : all_cases())
    if (c.differentiable) cases.push_back(&c);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Ops, SecondDerivatives, testing::ValuesIn(smooth_cases()),
                         [](const auto& given) { return given.param->full_name(); });

}  // namespace
}  // namespace binade::conformance
