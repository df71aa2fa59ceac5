#include <cmath>
#include <limits>

#include "binade/core/ops/binary.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/math_functions.h"
#include "binade/core/ops/rare_binary.h"
#include "binade/core/ops/rounding.h"
#include "binade/core/ops/unary.h"
#include "binade/core/ops/where.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

using Unary = std::string (*)(Call&, const std::string& x);
using Binary = std::string (*)(Call&, const std::string& a, const std::string& b);

/// An op of one input that ONNX has under the name `op`.
OpWriter same(const char* op) {
  return [op](Call& c) {
    const bool first = c.prefers_channels_first();
    c.result(0, c.node(op, {c.operand(0, first)}), first);
  };
}

/// A writer whose body returns the result from its operands, in the order that the operands have.
OpWriter unary(Unary body) {
  return [body](Call& c) {
    const bool first = c.prefers_channels_first();
    c.result(0, body(c, c.operand(0, first)), first);
  };
}
OpWriter binary(Binary body) {
  return [body](Call& c) {
    const bool first = c.prefers_channels_first();
    const std::string a = c.operand(0, first);
    c.result(0, body(c, a, c.operand(1, first)), first);
  };
}

using Text = const std::string&;

/// The number of a scalar op; its result is floating, also for a whole input.
std::string number_of(Call& c) { return c.scalar(c.params<ops::AddScalar>().scalar); }

std::string truncated(Call& c, Text x) { return c.node("Mul", {c.node("Sign", {x}), c.node("Floor", {c.node("Abs", {x})})}); }

/// f of x in f64, for functions of small differences: log(1 + x), exp(x) - 1.
std::string in_double(Call& c, Text x, std::string (*f)(Call&, Text)) {
  return c.cast(f(c, c.cast(x, c.computing(), DType::f64)), DType::f64, c.computing());
}

std::string fmod_of(Call& c, Text a, Text b) { return c.node("Mod", {a, b}, {{"fmod", std::int64_t{1}}}); }
/// a - floor(a / b) b, with the sign of b.
std::string remainder_of(Call& c, Text a, Text b) {
  if (c.computing() == DType::i64) return c.node("Mod", {a, b});
  const std::string r = fmod_of(c, a, b), zero = c.scalar(0);
  const std::string other = c.node("Less", {c.node("Mul", {r, b}), zero});
  return c.node("Where", {other, c.node("Add", {r, b}), r});
}
std::string floor_quotient(Call& c, Text a, Text b) {
  const std::string exact = c.node("Sub", {a, remainder_of(c, a, b)});
  const std::string quotient = c.node("Div", {exact, b});
  return c.computing() == DType::i64 ? quotient : c.node("Round", {quotient});
}

std::string bounded(Call& c, Text x, double low, double high) {
  if (low == -kInf && high == kInf) return c.node("Identity", {x});
  return c.node("Clip", {x, low == -kInf ? "" : c.scalar(low), high == kInf ? "" : c.scalar(high)});
}

std::string numbers_for_nan(Call& c, Text x) {
  const auto& p = c.params<ops::NanToNum>();
  std::string y = c.node("Where", {c.node("IsNaN", {x}), c.scalar(p.nan), x});
  const std::string above = c.node("IsInf", {x}, {{"detect_negative", std::int64_t{0}}});
  const std::string below = c.node("IsInf", {x}, {{"detect_positive", std::int64_t{0}}});
  y = c.node("Where", {above, c.scalar(p.posinf), y});
  return c.node("Where", {below, c.scalar(p.neginf), y});
}

void choose(Call& c) {
  const bool first = c.prefers_channels_first();
  const std::string condition = c.operand(0, first, DType::boolean);
  const std::string a = c.operand(1, first);
  c.result(0, c.node("Where", {condition, a, c.operand(2, first)}), first);
}

void convert(Call& c) {
  const bool first = c.prefers_channels_first();
  const DType from = c.in(0).dtype(), to = c.params<ops::Cast>().to;
  c.result_as(0, c.cast(c.operand(0, first, from), from, to), to, first);
}

// A power of a negative number with a whole exponent is negative or positive in ONNX too.
std::string power(Call& c, Text x) { return c.node("Pow", {x, c.scalar(c.params<ops::Pow>().exponent)}); }

}  // namespace

OpWriters elementwise_writers() {
  return {
      {"abs", same("Abs")},
      {"acos", same("Acos")},
      {"acosh", same("Acosh")},
      {"asin", same("Asin")},
      {"asinh", same("Asinh")},
      {"atan", same("Atan")},
      {"atanh", same("Atanh")},
      {"ceil", same("Ceil")},
      {"cos", same("Cos")},
      {"cosh", same("Cosh")},
      {"erf", same("Erf")},
      {"exp", same("Exp")},
      {"floor", same("Floor")},
      {"log", same("Log")},
      {"neg", same("Neg")},
      {"round", same("Round")},
      {"sign", same("Sign")},
      {"sin", same("Sin")},
      {"sinh", same("Sinh")},
      {"sqrt", same("Sqrt")},
      {"tan", same("Tan")},
      {"tanh", same("Tanh")},
      {"square", unary([](Call& c, Text x) { return c.node("Mul", {x, x}); })},
      {"pow", unary(power)},
      {"clamp", unary([](Call& c, Text x) {
         const auto& p = c.params<ops::Clamp>();
         return bounded(c, x, p.low, p.high);
       })},
      {"log1p", unary([](Call& c, Text x) {
         return in_double(c, x, [](Call& d, Text z) { return d.node("Log", {d.node("Add", {z, d.scalar(1, DType::f64)})}); });
       })},
      {"expm1", unary([](Call& c, Text x) {
         return in_double(c, x, [](Call& d, Text z) { return d.node("Sub", {d.node("Exp", {z}), d.scalar(1, DType::f64)}); });
       })},
      {"log2", unary([](Call& c, Text x) { return c.node("Div", {c.node("Log", {x}), c.scalar(std::log(2.0))}); })},
      {"log10", unary([](Call& c, Text x) { return c.node("Div", {c.node("Log", {x}), c.scalar(std::log(10.0))}); })},
      {"exp2", unary([](Call& c, Text x) { return c.node("Pow", {c.scalar(2), x}); })},
      {"rsqrt", unary([](Call& c, Text x) { return c.node("Reciprocal", {c.node("Sqrt", {x})}); })},
      {"trunc", unary(truncated)},
      {"frac", unary([](Call& c, Text x) { return c.node("Sub", {x, truncated(c, x)}); })},
      {"nan_to_num", unary(numbers_for_nan)},
      {"add_scalar", unary([](Call& c, Text x) { return c.node("Add", {x, number_of(c)}); })},
      {"mul_scalar", unary([](Call& c, Text x) { return c.node("Mul", {x, number_of(c)}); })},
      {"div_scalar", unary([](Call& c, Text x) { return c.node("Div", {x, number_of(c)}); })},
      {"scalar_sub", unary([](Call& c, Text x) { return c.node("Sub", {number_of(c), x}); })},
      {"scalar_div", unary([](Call& c, Text x) { return c.node("Div", {number_of(c), x}); })},
      {"add", binary([](Call& c, Text a, Text b) { return c.node("Add", {a, b}); })},
      {"sub", binary([](Call& c, Text a, Text b) { return c.node("Sub", {a, b}); })},
      {"mul", binary([](Call& c, Text a, Text b) { return c.node("Mul", {a, b}); })},
      {"div", binary([](Call& c, Text a, Text b) { return c.node("Div", {a, b}); })},
      {"maximum", binary([](Call& c, Text a, Text b) { return c.node("Max", {a, b}); })},
      {"minimum", binary([](Call& c, Text a, Text b) { return c.node("Min", {a, b}); })},
      {"tensor_pow", binary([](Call& c, Text a, Text b) { return c.node("Pow", {a, b}); })},
      {"fmod", binary(fmod_of)},
      {"remainder", binary(remainder_of)},
      {"floor_divide", binary(floor_quotient)},
      {"hypot", binary([](Call& c, Text a, Text b) {
         const std::string x = c.cast(a, c.computing(), DType::f64), y = c.cast(b, c.computing(), DType::f64);
         const std::string sum = c.node("Add", {c.node("Mul", {x, x}), c.node("Mul", {y, y})});
         return c.cast(c.node("Sqrt", {sum}), DType::f64, c.computing());
       })},
      {"logaddexp", binary([](Call& c, Text a, Text b) {
         const std::string distance = c.node("Neg", {c.node("Abs", {c.node("Sub", {a, b})})});
         return c.node("Add", {c.node("Max", {a, b}), c.node("Softplus", {distance})});
       })},
      {"xlogy", binary([](Call& c, Text a, Text b) {
         const std::string zero = c.scalar(0), product = c.node("Mul", {a, c.node("Log", {b})});
         return c.node("Where", {c.node("Equal", {a, zero}), zero, product});
       })},
      {"prelu", binary([](Call& c, Text a, Text b) {
         return c.node("Where", {c.node("Greater", {a, c.scalar(0)}), a, c.node("Mul", {a, b})});
       })},
      {"where", choose},
      {"cast", convert},
  };
}

}  // namespace binade::onnx
