#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions.h"
#include "tests/golden/op_case.h"

/// docs/functions.md's mathematical functions, activations, comparisons, whole numbers and reductions compared with
/// PyTorch's.
namespace binade::golden {
namespace {

Function unary(Variable (*f)(const Variable&)) {
  return [f](const Case&, const Inputs& in) -> Outputs { return {{"y", f(in["x"])}}; };
}
Function binary(Variable (*f)(const Variable&, const Variable&)) {
  return [f](const Case&, const Inputs& in) -> Outputs { return {{"y", f(in["a"], in["b"])}}; };
}

TEST(GoldenOps, FunctionsMatchPyTorch) {
  const std::map<std::string, Function> functions{
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"tan", unary(tan)},
      {"atan", unary(atan)},
      {"sinh", unary(sinh)},
      {"cosh", unary(cosh)},
      {"asinh", unary(asinh)},
      {"expm1", unary(expm1)},
      {"exp2", unary(exp2)},
      {"sign", unary(sign)},
      {"floor", unary(floor)},
      {"ceil", unary(ceil)},
      {"trunc", unary(trunc)},
      {"round", unary(round)},
      {"frac", unary(frac)},
      {"selu", unary(selu)},
      {"hardsigmoid", unary(hardsigmoid)},
      {"hardswish", unary(hardswish)},
      {"relu6", unary(relu6)},
      {"mish", unary(mish)},
      {"logsigmoid", unary(logsigmoid)},
      {"tanhshrink", unary(tanhshrink)},
      {"asin", unary(asin)},
      {"acos", unary(acos)},
      {"atanh", unary(atanh)},
      {"erfinv", unary(erfinv)},
      {"acosh", unary(acosh)},
      {"log1p", unary(log1p)},
      {"log2", unary(log2)},
      {"log10", unary(log10)},
      {"rsqrt", unary(rsqrt)},
      {"lgamma", unary(lgamma)},
      {"digamma", unary(digamma)},
      {"reciprocal", unary(reciprocal)},
      {"leaky_relu", unary([](const Variable& x) { return leaky_relu(x); })},
      {"elu", unary([](const Variable& x) { return elu(x); })},
      {"celu", unary([](const Variable& x) { return celu(x); })},
      {"hardshrink", unary([](const Variable& x) { return hardshrink(x); })},
      {"softshrink", unary([](const Variable& x) { return softshrink(x); })},
      {"softplus", unary([](const Variable& x) { return softplus(x); })},
      {"hardtanh", unary([](const Variable& x) { return hardtanh(x); })},
      {"atan2", binary(atan2)},
      {"fmod", binary(fmod)},
      {"remainder", binary(remainder)},
      {"hypot", binary(hypot)},
      {"copysign", binary(copysign)},
      {"logaddexp", binary(logaddexp)},
      {"maximum", binary(maximum)},
      {"minimum", binary(minimum)},
      {"floor_divide", binary(floor_divide)},
      {"xlogy", binary(xlogy)},
      {"eq", binary(eq)},
      {"ne", binary(ne)},
      {"lt", binary(lt)},
      {"le", binary(le)},
      {"gt", binary(gt)},
      {"ge", binary(ge)},
      {"logical_and", binary(logical_and)},
      {"logical_or", binary(logical_or)},
      {"logical_xor", binary(logical_xor)},
      {"bitwise_and", binary(bitwise_and)},
      {"bitwise_or", binary(bitwise_or)},
      {"bitwise_xor", binary(bitwise_xor)},
      {"bitwise_left_shift", binary(bitwise_left_shift)},
      {"bitwise_right_shift", binary(bitwise_right_shift)},
      {"softplus_of_2_and_3", unary([](const Variable& x) { return softplus(x, 2, 3); })},
      {"threshold_of_1_and_2", unary([](const Variable& x) { return threshold(x, 1, 2); })},
      {"nan_to_num_of_1_2_3", unary([](const Variable& x) { return nan_to_num(x, 1, 2, -3); })},
      {"prod_along", unary([](const Variable& x) { return prod(x, 1); })},
      {"var_along", unary([](const Variable& x) { return var(x, 1); })},
      {"stddev_along", unary([](const Variable& x) { return stddev(x, 1); })},
      {"logsumexp_along", unary([](const Variable& x) { return logsumexp(x, 1); })},
      {"norm_along", unary([](const Variable& x) { return norm(x, 2, 1); })},
      {"norm_of_1_along", unary([](const Variable& x) { return norm(x, 1, 1); })},
      {"norm_of_3_along", unary([](const Variable& x) { return norm(x, 3, 1); })},
      {"norm_of_inf_along", unary([](const Variable& x) { return norm(x, HUGE_VAL, 1); })},
      {"argmax_along", unary([](const Variable& x) { return argmax(x, 1); })},
      {"argmin_along", unary([](const Variable& x) { return argmin(x, 1); })},
      {"count_nonzero_along", unary([](const Variable& x) { return count_nonzero(x, 1); })},
      {"any_along", unary([](const Variable& x) { return any(x, 1); })},
      {"all_along", unary([](const Variable& x) { return all(x, 1); })},
      {"sum_along", unary([](const Variable& x) { return sum(x, 1); })},
      {"tril", unary([](const Variable& x) { return tril(x); })},
      {"triu_of_1", unary([](const Variable& x) { return triu(x, 1); })},
      {"diag_of_1", unary([](const Variable& x) { return diag(x, 1); })},
      {"add", binary([](const Variable& a, const Variable& b) { return a + b; })},
      {"sub", binary([](const Variable& a, const Variable& b) { return a - b; })},
      {"mul", binary([](const Variable& a, const Variable& b) { return a * b; })},
      {"tensor_pow", binary([](const Variable& a, const Variable& b) { return pow(a, b); })},
      {"max_along",
       [](const Case&, const Inputs& in) -> Outputs {
         const auto [values, indices] = max(in["x"], 1);
         return {{"y", values}, {"at", indices}};
       }},
      {"min_along",
       [](const Case&, const Inputs& in) -> Outputs {
         const auto [values, indices] = min(in["x"], 1);
         return {{"y", values}, {"at", indices}};
       }},
      {"prelu",
       [](const Case&, const Inputs& in) -> Outputs {
         return {{"y", prelu(in["x"], in["w"])}};
       }},
  };
  check_family("functions", functions);
}

}  // namespace
}  // namespace binade::golden
