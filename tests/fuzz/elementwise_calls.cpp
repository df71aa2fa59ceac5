#include "binade/autograd/apply.h"
#include "binade/autograd/functions.h"
#include "binade/core/ops/rare_binary.h"
#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

/// Two operands that broadcast.
std::pair<Variable, Variable> pair(A a) {
  const auto one = [&](std::int64_t e) { return a.draws().one_in(4) ? 1 : e; };
  Variable x = a.tensor({one(a.b), one(a.t), one(a.d)});
  return {x, a.draws().one_in(3) ? a.tensor({one(a.d)}) : a.tensor({one(a.b), one(a.t), one(a.d)})};
}

/// Two operands that broadcast, often of different dtypes.
std::pair<Variable, Variable> any_pair(A a) {
  const auto [x, y] = pair(a);
  if (!x.defined() || !a.flag()) return {x, y};
  return {x.value().to(a.dtype()), y};
}

/// Two operands of whole numbers that broadcast.
std::pair<Variable, Variable> whole_pair(A a) {
  const auto one = [&](std::int64_t e) { return a.draws().one_in(4) ? 1 : e; };
  const auto operand = [&] { return a.flag() ? a.indices({one(a.t), one(a.d)}, 300) : a.mask({one(a.t), one(a.d)}); };
  Variable x = operand();
  return {x, operand()};
}

}  // namespace

const std::vector<Call>& elementwise_calls() {
  static const std::vector<Call> all{
      {"relu", [](A a) -> Out { return {relu(a.any())}; }},
      {"gelu", [](A a) -> Out { return {gelu(a.any())}; }},
      {"gelu_tanh", [](A a) -> Out { return {gelu_tanh(a.any())}; }},
      {"silu", [](A a) -> Out { return {silu(a.any())}; }},
      {"sigmoid", [](A a) -> Out { return {sigmoid(a.any())}; }},
      {"tanh", [](A a) -> Out { return {tanh(a.any())}; }},
      {"erf", [](A a) -> Out { return {erf(a.any())}; }},
      {"exp", [](A a) -> Out { return {exp(a.any())}; }},
      {"log", [](A a) -> Out { return {log(a.any())}; }},
      {"softplus", [](A a) -> Out { return {softplus(a.any())}; }},
      {"sqrt", [](A a) -> Out { return {sqrt(a.any())}; }},
      {"pow", [](A a) -> Out { return {pow(a.any(), a.real(2))}; }},
      {"square", [](A a) -> Out { return {square(a.any())}; }},
      {"clamp", [](A a) -> Out { return {clamp(a.any(), a.real(-1), a.real(1))}; }},
      {"abs", [](A a) -> Out { return {abs(a.any())}; }},
      {"neg", [](A a) -> Out { return {-a.any()}; }},
      {"add_scalar", [](A a) -> Out { return {a.any() + a.real(2)}; }},
      {"mul_scalar", [](A a) -> Out { return {a.any() * a.real(2)}; }},
      {"div_scalar", [](A a) -> Out { return {a.any() / a.real(2)}; }},
      {"scalar_sub", [](A a) -> Out { return {a.real(2) - a.any()}; }},
      {"scalar_div", [](A a) -> Out { return {a.real(2) / a.any()}; }},
      {"add",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {x + y};
       }},
      {"sub",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {x - y};
       }},
      {"mul",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {x * y};
       }},
      {"div",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {x / y};
       }},
      {"maximum",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {maximum(x, y)};
       }},
      {"minimum",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {minimum(x, y)};
       }},
      {"sin", [](A a) -> Out { return {sin(a.any())}; }},
      {"cos", [](A a) -> Out { return {cos(a.any())}; }},
      {"tan", [](A a) -> Out { return {tan(a.any())}; }},
      {"asin", [](A a) -> Out { return {asin(a.any())}; }},
      {"acos", [](A a) -> Out { return {acos(a.any())}; }},
      {"atan", [](A a) -> Out { return {atan(a.any())}; }},
      {"sinh", [](A a) -> Out { return {sinh(a.any())}; }},
      {"cosh", [](A a) -> Out { return {cosh(a.any())}; }},
      {"asinh", [](A a) -> Out { return {asinh(a.any())}; }},
      {"acosh", [](A a) -> Out { return {acosh(a.any())}; }},
      {"atanh", [](A a) -> Out { return {atanh(a.any())}; }},
      {"log1p", [](A a) -> Out { return {log1p(a.any())}; }},
      {"expm1", [](A a) -> Out { return {expm1(a.any())}; }},
      {"log2", [](A a) -> Out { return {log2(a.any())}; }},
      {"log10", [](A a) -> Out { return {log10(a.any())}; }},
      {"exp2", [](A a) -> Out { return {exp2(a.any())}; }},
      {"rsqrt", [](A a) -> Out { return {rsqrt(a.any())}; }},
      {"erfinv", [](A a) -> Out { return {erfinv(a.any())}; }},
      {"lgamma", [](A a) -> Out { return {lgamma(a.any())}; }},
      {"digamma", [](A a) -> Out { return {digamma(a.any())}; }},
      {"erfc", [](A a) -> Out { return {erfc(a.any())}; }},
      {"sinc", [](A a) -> Out { return {sinc(a.any())}; }},
      {"i0", [](A a) -> Out { return {i0(a.any())}; }},
      {"i1", [](A a) -> Out { return {i1(a.any())}; }},
      {"bessel_i0", [](A a) -> Out { return {i0(a.any())}; }},
      {"bessel_i1", [](A a) -> Out { return {i1(a.any())}; }},
      {"polygamma", [](A a) -> Out { return {polygamma(static_cast<int>(a.number(2)), a.any())}; }},
      {"gcd",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {gcd(x, y)};
       }},
      {"lcm",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {lcm(x, y)};
       }},
      {"sign", [](A a) -> Out { return {sign(a.any())}; }},
      {"floor", [](A a) -> Out { return {floor(a.any())}; }},
      {"ceil", [](A a) -> Out { return {ceil(a.any())}; }},
      {"trunc", [](A a) -> Out { return {trunc(a.any())}; }},
      {"round", [](A a) -> Out { return {round(a.any())}; }},
      {"frac", [](A a) -> Out { return {frac(a.any())}; }},
      {"reciprocal", [](A a) -> Out { return {reciprocal(a.any())}; }},
      {"selu", [](A a) -> Out { return {selu(a.any())}; }},
      {"hardswish", [](A a) -> Out { return {hardswish(a.any())}; }},
      {"hardsigmoid", [](A a) -> Out { return {hardsigmoid(a.any())}; }},
      {"relu6", [](A a) -> Out { return {relu6(a.any())}; }},
      {"mish", [](A a) -> Out { return {mish(a.any())}; }},
      {"logsigmoid", [](A a) -> Out { return {logsigmoid(a.any())}; }},
      {"tanhshrink", [](A a) -> Out { return {tanhshrink(a.any())}; }},
      {"logical_not", [](A a) -> Out { return {logical_not(a.any())}; }},
      {"isnan", [](A a) -> Out { return {isnan(a.any())}; }},
      {"isinf", [](A a) -> Out { return {isinf(a.any())}; }},
      {"isfinite", [](A a) -> Out { return {isfinite(a.any())}; }},
      {"nan_to_num", [](A a) -> Out { return {nan_to_num(a.any(), a.real(0), a.real(1), a.real(-1))}; }},
      {"leaky_relu", [](A a) -> Out { return {leaky_relu(a.any(), a.real(0.1))}; }},
      {"elu", [](A a) -> Out { return {elu(a.any(), a.real(1))}; }},
      {"celu", [](A a) -> Out { return {celu(a.any(), a.real(1))}; }},
      {"hardtanh", [](A a) -> Out { return {hardtanh(a.any(), a.real(-1), a.real(1))}; }},
      {"hardshrink", [](A a) -> Out { return {hardshrink(a.any(), a.real(0.5))}; }},
      {"softshrink", [](A a) -> Out { return {softshrink(a.any(), a.real(0.5))}; }},
      {"threshold", [](A a) -> Out { return {threshold(a.any(), a.real(0), a.real(1))}; }},
      {"softplus_beta", [](A a) -> Out { return {softplus(a.any(), a.real(2), a.real(20))}; }},
      {"atan2",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {atan2(x, y)};
       }},
      {"fmod",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {fmod(x, y)};
       }},
      {"remainder",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {remainder(x, y)};
       }},
      {"floor_divide",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {floor_divide(x, y)};
       }},
      {"hypot",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {hypot(x, y)};
       }},
      {"copysign",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {copysign(x, y)};
       }},
      {"logaddexp",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {logaddexp(x, y)};
       }},
      {"xlogy",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {xlogy(x, y)};
       }},
      {"prelu",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {prelu(x, y)};
       }},
      {"normal",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {normal(x, y)};
       }},
      {"tensor_pow",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {pow(x, y)};
       }},
      {"norm_slope",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {apply_one<ops::NormSlope>({a.real(2)}, {x, y})};
       }},
      {"eq",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {eq(x, y)};
       }},
      {"ne",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {ne(x, y)};
       }},
      {"lt",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {lt(x, y)};
       }},
      {"le",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {le(x, y)};
       }},
      {"gt",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {gt(x, y)};
       }},
      {"ge",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {ge(x, y)};
       }},
      {"logical_and",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {logical_and(x, y)};
       }},
      {"logical_or",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {logical_or(x, y)};
       }},
      {"logical_xor",
       [](A a) -> Out {
         const auto [x, y] = any_pair(a);
         return {logical_xor(x, y)};
       }},
      {"bitwise_and",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {bitwise_and(x, y)};
       }},
      {"bitwise_or",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {bitwise_or(x, y)};
       }},
      {"bitwise_xor",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {bitwise_xor(x, y)};
       }},
      {"bitwise_left_shift",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {bitwise_left_shift(x, y)};
       }},
      {"bitwise_right_shift",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         return {bitwise_right_shift(x, y)};
       }},
      {"bitwise_not", [](A a) -> Out { return {bitwise_not(whole_pair(a).first)}; }},
      {"whole arithmetic",
       [](A a) -> Out {
         const auto [x, y] = whole_pair(a);
         switch (a.draws().below(8)) {
           case 0: return {x + y};
           case 1: return {x - y};
           case 2: return {x * y};
           case 3: return {x / y};
           case 4: return {floor_divide(x, y)};
           case 5: return {remainder(x, y)};
           case 6: return {clamp(x, a.real(-1), a.real(1))};
           default: return {a.number(3) - x, x + 1, abs(x), sign(-x)};
         }
       }},
      {"where",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {where(a.mask({a.b, a.t, a.d}), x, y)};
       }},
      {"cast", [](A a) -> Out { return {cast(a.any(), a.dtype())}; }},
      {"dropout", [](A a) -> Out { return {dropout(a.any(), a.real(0.5))}; }},
  };
  return all;
}

}  // namespace binade::fuzz
