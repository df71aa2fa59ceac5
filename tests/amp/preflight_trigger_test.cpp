#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "binade/amp/verdict.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/shape.h"
#include "binade/optim/adam.h"
#include "tests/amp/preflight_cases.h"
#include "tests/error_text.h"

// A finding names an input that triggers it. These tests run the ops on that input and expect a non-finite result.
namespace binade::amp {
namespace {

using preflight_cases::Case;
using preflight_cases::HalfSum;
using preflight_cases::one_pass;
using preflight_cases::Shifted;

Variable half(const Variable& x) { return Tensor::full(x.shape(), 0.5); }
/// A row of 16 elements: 100, then zeros. A gradient multiplied by it is not constant along the row.
Variable first_alone() {
  Tensor row = Tensor::zeros({1, 16});
  row.mutable_data<float>()[0] = 100;
  return row;
}
/// Returns the row (0, x).
Variable beside_zero(const Variable& x) { return concat({Tensor::zeros(x.shape(), x.dtype()), x}); }

/// For each planted case, the ops that read the input that its finding names.
const std::map<std::string, std::function<Variable(const Variable&)>>& ops_by_case() {
  static const std::map<std::string, std::function<Variable(const Variable&)>> table{
      {"bce of a sigmoid", [](const Variable& x) { return bce(sigmoid(x), half(x)); }},
      {"bce of a sigmoid that is clamped by less than f32 can tell from 1",
       [](const Variable& x) { return bce(clamp(sigmoid(x), 1e-9, 1 - 1e-9), half(x)); }},
      {"bce of a sigmoid clamped by less than f16 can tell from 1",
       [](const Variable& x) { return bce(clamp(sigmoid(x), 1e-5, 1 - 1e-5), half(x)); }},
      {"log of a sigmoid", [](const Variable& x) { return log(sigmoid(x)); }},
      {"log of 1 - sigmoid", [](const Variable& x) { return log(1.0 - sigmoid(x)); }},
      {"log of a softmax", [](const Variable& x) { return log(softmax(beside_zero(x))); }},
      {"log of a softmax in f16 with an eps of 1e-8",
       [](const Variable& x) { return log(softmax(beside_zero(x)) + 1e-8); }},
      {"log of a ReLU", [](const Variable& x) { return log(relu(x)); }},
      {"log of a product", [](const Variable& x) { return log(x); }},
      {"log of a ReLU in f16 with an eps of 1e-8", [](const Variable& x) { return log(relu(x) + 1e-8); }},
      {"where that hides a log of everything", [](const Variable& x) { return log(x); }},
      {"a norm without eps", [](const Variable& x) { return sqrt(sum(square(x))); }},
      {"root mean square error", [](const Variable& x) { return sqrt(x); }},
      {"standardization without eps", [](const Variable& x) { return 1.0 / sqrt(mean(square(x), {-1}, true)); }},
      {"division by a sum of absolute values", [](const Variable& x) { return 1.0 / sum(abs(x)); }},
      {"a softmax by hand, nothing subtracted", [](const Variable& x) { return 1.0 / sum(exp(x)); }},
      {"division with an eps that f32 squares away", [](const Variable& x) { return 1.0 / (sum(square(x)) + 1e-30); }},
      {"one over a product", [](const Variable& x) { return 1.0 / x; }},
      {"Dice by hand without smoothing", [](const Variable& x) { return 1.0 / x; }},
      {"mean over the visible, which may be none", [](const Variable& x) { return 1.0 / sum(x); }},
      {"a negative power of a square", [](const Variable& x) { return pow(sum(square(x)), -0.5); }},
      {"one-pass variance", [](const Variable& x) { return sqrt(one_pass(x) + 1e-5); }},
      {"a user's op at its singularity", [](const Variable& x) { return apply_one<Shifted>({}, {sigmoid(x)}); }},
      {"layer norm without eps", [](const Variable& x) { return layer_norm(x, {}, {}, 0); }},
      {"layer norm in f16 with an eps of 1e-8",
       [](const Variable& x) { return layer_norm(x, {}, {}, 1e-8) * first_alone(); }},
      {"rms norm with an eps that f32 does not hold", [](const Variable& x) { return rms_norm(x, {}, 1e-50); }},
      {"Dice without smoothing", [](const Variable& x) { return dice(x, Tensor::zeros(x.shape()), 0); }},
      {"a mask of -1e9 added in f16", [](const Variable& x) { return cast(x, DType::f16); }},
      {"a mask multiplied by -1e9 in f16", [](const Variable& x) { return cast(x, DType::f16); }},
      {"the lowest number of f16 as a mask of large scores",
       [](const Variable& x) { return cast(x, DType::f16) + Tensor::full(x.shape(), -65504.0).to(DType::f16); }},
      {"a row masked whole before a softmax", [](const Variable& x) { return softmax(x); }},
      {"a sum stored in f16", [](const Variable& x) { return sum(x); }},
      {"a user's sum that accumulates in f16", [](const Variable& x) { return apply_one<HalfSum>({}, {x}); }},
      {"exp beyond f16", [](const Variable& x) { return exp(x); }},
      {"exp beyond f32", [](const Variable& x) { return exp(x); }},
  };
  return table;
}

bool finite(const Tensor& tensor) { return !tensor.defined() || all_finite(tensor); }

/// Returns true if the value or the gradient of `f` is not finite for the row `values`.
bool breaks(const std::function<Variable(const Variable&)>& f, const std::vector<double>& values, DType dtype,
            const Policy& policy, double gradient = 1) {
  const Runtime runtime({.threads = 1});
  const PolicyScope scope(policy);
  std::vector<float> row;
  for (const double value : values) row.push_back(static_cast<float>(value));
  const Tensor given = Tensor::from(row, {1, static_cast<std::int64_t>(row.size())}).to(dtype);
  const Variable x(given, true);
  x.state()->activation = true;
  const Variable y = f(x);
  if (!finite(y.value())) return true;
  backward(y, Tensor::full(y.shape(), gradient, y.dtype()));
  return !finite(x.grad());
}

std::vector<double> row_of(const Case& c, const Trigger& trigger) {
  if (trigger.values.size() > 1) return trigger.values;
  const std::size_t terms = c.rule == "long-sum" ? 128 : c.op == "layer_norm" || c.op == "rms_norm" ? 16 : 1;
  return std::vector<double>(terms, trigger.values[0]);
}

TEST(PreflightTrigger, MakesTheNamedOpNonFinite) {
  std::size_t tried = 0;
  for (const Case& c : preflight_cases::planted()) {
    const auto entry = ops_by_case().find(c.name);
    if (entry == ops_by_case().end()) continue;
    const PreflightReport report = preflight_cases::preflight(c);
    ASSERT_FALSE(report.findings.empty()) << c.name;
    ASSERT_TRUE(report.findings[0].trigger.has_value()) << c.name;
    const Trigger& trigger = *report.findings[0].trigger;
    EXPECT_TRUE(breaks(entry->second, row_of(c, trigger), trigger.dtype, c.options.precision))
        << c.name << ": " << trigger.chain;
    ++tried;
  }
  EXPECT_EQ(tried, ops_by_case().size()) << "a name of the table is not one of a planted model";
}

TEST(PreflightTrigger, IsTheSmallestInputThatSaturatesASigmoid) {
  for (const Case& c : preflight_cases::planted()) {
    if (c.rule != "bce-after-sigmoid" && c.rule != "log-after-sigmoid" && c.rule != "log-after-softmax") continue;
    const Trigger trigger = preflight_cases::preflight(c).findings.at(0).trigger.value();
    EXPECT_FALSE(
        breaks(ops_by_case().at(c.name), {0.99 * trigger.values[0]}, trigger.dtype, c.options.precision, 0x1p-10))
        << c.name;
  }
}

TEST(PreflightTrigger, OfAnEpsIsAGradientThatMakesAdamsUpdateBad) {
  for (const Case& c : preflight_cases::planted()) {
    if (c.rule != "optimizer-eps") continue;
    const Trigger trigger = preflight_cases::preflight(c).findings.at(0).trigger.value();
    const Runtime runtime({.threads = 1});
    preflight_cases::Features model;
    const std::unique_ptr<optim::Optimizer> optimizer = c.optimizer(model);
    Variable::State& bias = *model.body.bias.state();
    const Tensor before = bias.value.clone();
    bias.grad = Tensor::full(bias.value.shape(), trigger.values[0]);
    bias.grad_defined = true;
    // step() refuses an update that would not be finite, and makes one that is merely too large.
    const std::string refused = test::error_of<NumericError>([&] { optimizer->step(); });
    if (refused != "no error") {
      EXPECT_NE(refused.find("body.bias"), refused.npos) << c.name << ": " << refused;
      EXPECT_NE(refused.find("raise eps"), refused.npos) << c.name << ": " << refused;
      EXPECT_EQ(bias.value.to_vector<float>(), before.to_vector<float>()) << c.name;
      continue;
    }
    const double moved = bias.value.at(0) - before.at(0);
    EXPECT_GT(std::abs(moved), 100 * optimizer->lr()) << c.name;
  }
}

}  // namespace
}  // namespace binade::amp
