#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

Function unary(Variable (*f)(const Variable&)) {
  return [f](const Case&, const Inputs& in) -> Outputs { return {{"y", f(in["x"])}}; };
}

Function binary(Variable (*f)(const Variable&, const Variable&)) {
  return [f](const Case&, const Inputs& in) -> Outputs { return {{"y", f(in["a"], in["b"])}}; };
}

TEST(GoldenOps, ElementwiseMatchesPyTorch) {
  check_family("elementwise", {
                                  {"add", binary([](const Variable& a, const Variable& b) { return a + b; })},
                                  {"sub", binary([](const Variable& a, const Variable& b) { return a - b; })},
                                  {"mul", binary([](const Variable& a, const Variable& b) { return a * b; })},
                                  {"div", binary([](const Variable& a, const Variable& b) { return a / b; })},
                                  {"relu", unary(relu)},
                                  {"gelu", unary(gelu)},
                                  {"gelu_tanh", unary(gelu_tanh)},
                                  {"silu", unary(silu)},
                                  {"sigmoid", unary(sigmoid)},
                                  {"tanh", unary(tanh)},
                                  {"exp", unary(exp)},
                                  {"log", unary(log)},
                                  {"sqrt", unary(sqrt)},
                                  {"pow",
                                   [](const Case& c, const Inputs& in) -> Outputs {
                                     return {{"y", pow(in["x"], c.number("exponent"))}};
                                   }},
                                  {"clamp",
                                   [](const Case& c, const Inputs& in) -> Outputs {
                                     return {{"y", clamp(in["x"], c.number("low"), c.number("high"))}};
                                   }},
                                  {"where",
                                   [](const Case&, const Inputs& in) -> Outputs {
                                     return {{"y", where(in["condition"], in["a"], in["b"])}};
                                   }},
                              });
}

Function reduction(Variable (*f)(const Variable&, Axes, bool)) {
  return [f](const Case& c, const Inputs& in) -> Outputs {
    const std::vector<std::int64_t> axes = c.integers("axes");
    return {{"y", f(in["x"], std::vector<int>(axes.begin(), axes.end()), c.flag("keep"))}};
  };
}

TEST(GoldenOps, ReductionsMatchPyTorch) {
  check_family("reductions", {{"sum", reduction(sum)}, {"mean", reduction(mean)}, {"max", reduction(max)}});
}

}  // namespace
}  // namespace binade::golden
