#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "binade/autograd/gradcheck.h"
#include "binade/core/error.h"
#include "tests/conformance/case.h"

/// Tests the recorded derivative (autograd/derivatives/) of every op x shape class: it must equal backward, and its
/// derivative must agree with finite differences.
namespace binade::conformance {
namespace {

/// The result of gradgradcheck, or the error text if `grad` refuses the op.
struct Outcome {
  GradcheckResult result{};
  std::string refusal{};
};
Outcome outcome_of(const Case& c) try {
  std::int64_t most = 0;
  for (const Tensor& x : c.inputs) most = std::max(most, x.numel());
  return {gradgradcheck(c.run, c.inputs,
                        {.rtol = 2e-6, .atol = 1e-6, .max_elements = most > 500 ? 2 : 6, .device = tested_device()})};
} catch (const AutogradError& error) {
  return {.refusal = error.what()};
}

class SecondDerivatives : public testing::TestWithParam<const Case*> {};

TEST_P(SecondDerivatives, AgreeWithFiniteDifferencesOrAreRefusedByName) {
  const auto& [result, refusal] = outcome_of(*GetParam());
  EXPECT_TRUE(result.passed) << result.message;
  if (refusal.empty()) return;
  EXPECT_EQ(refusal.find(GetParam()->info->name), 0u) << refusal;
  EXPECT_NE(refusal.find("(create_graph): "), std::string::npos) << refusal;
}

std::vector<const Case*> smooth_cases() {
  std::vector<const Case*> cases;
  for (const Case& c : all_cases())
    if (c.differentiable) cases.push_back(&c);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Ops, SecondDerivatives, testing::ValuesIn(smooth_cases()),
                         [](const auto& given) { return given.param->full_name(); });

/// The ops that have no derivative. docs/second-derivatives.md lists them; a new op may lack a derivative too.
TEST(SecondDerivativesOfOps, AreRefusedForFewOps) {
  std::map<std::string, bool> refused;
  for (const Case* c : smooth_cases()) {
    const auto op = refused.emplace(c->info->name, true).first;
    if (op->second) op->second = !outcome_of(*c).refusal.empty();
  }
  for (const char* op : {"dice", "max_pool2d", "attention", "det"})
    EXPECT_FALSE(refused.contains(op) && refused.at(op)) << op;
  EXPECT_GE(std::ranges::count(refused, false, [](const auto& op) { return op.second; }), 63);
}

}  // namespace
}  // namespace binade::conformance
