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

/// A writer whose body computes the result from the operands. The result has the order of axes of the operands.
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

/// The scalar of an op such as AddScalar. It is floating like the result, even if the input is whole.
std::string number_of(Call& c) { return c.scalar(c.params<ops::AddScalar>().scalar); }

std::string truncated(Call& c, Text x) {
  return c.node("Mul", {c.node("Sign", {x}), c.node("Floor", {c.node("Abs", {x})})});
}

/// Computes f(x) in f64, for functions in which digits cancel: log(1 + x), exp(x) - 1.
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

// As in Binade, Pow of a negative number with a whole exponent is defined, and has the correct sign.
std::string power(Call& c, Text x) { return c.node("Pow", {x, c.scalar(c.params<ops::Pow>().exponent)}); }

}  // namespace

OpWriters elementwise_writers() {
  return {
      {&ops::Abs::info, same("Abs")},
      {&ops::Acos::info, same("Acos")},
      {&ops::Acosh::info, same("Acosh")},
      {&ops::Asin::info, same("Asin")},
      {&ops::Asinh::info, same("Asinh")},
      {&ops::Atan::info, same("Atan")},
      {&ops::Atanh::info, same("Atanh")},
      {&ops::Ceil::info, same("Ceil")},
      {&ops::Cos::info, same("Cos")},
      {&ops::Cosh::info, same("Cosh")},
      {&ops::Erf::info, same("Erf")},
      {&ops::Exp::info, same("Exp")},
      {&ops::Floor::info, same("Floor")},
      {&ops::Log::info, same("Log")},
      {&ops::Neg::info, same("Neg")},
      {&ops::Round::info, same("Round")},
      {&ops::Sign::info, same("Sign")},
      {&ops::Sin::info, same("Sin")},
      {&ops::Sinh::info, same("Sinh")},
      {&ops::Sqrt::info, same("Sqrt")},
      {&ops::Tan::info, same("Tan")},
      {&ops::Tanh::info, same("Tanh")},
      {&ops::Square::info, unary([](Call& c, Text x) {
         return c.node("Mul", {x, x});
       })},
      {&ops::Pow::info, unary(power)},
      {&ops::Clamp::info, unary([](Call& c, Text x) {
         const auto& p = c.params<ops::Clamp>();
         return bounded(c, x, p.low, p.high);
       })},
      {&ops::Log1p::info, unary([](Call& c, Text x) {
         return in_double(c, x, [](Call& d, Text z) {
           return d.node("Log", {d.node("Add", {z, d.scalar(1, DType::f64)})});
         });
       })},
      {&ops::Expm1::info, unary([](Call& c, Text x) {
         return in_double(c, x, [](Call& d, Text z) {
           return d.node("Sub", {d.node("Exp", {z}), d.scalar(1, DType::f64)});
         });
       })},
      {&ops::Log2::info, unary([](Call& c, Text x) {
         return c.node("Div", {c.node("Log", {x}), c.scalar(std::log(2.0))});
       })},
      {&ops::Log10::info, unary([](Call& c, Text x) {
         return c.node("Div", {c.node("Log", {x}), c.scalar(std::log(10.0))});
       })},
      {&ops::Exp2::info, unary([](Call& c, Text x) {
         return c.node("Pow", {c.scalar(2), x});
       })},
      {&ops::Rsqrt::info, unary([](Call& c, Text x) { return c.node("Reciprocal", {c.node("Sqrt", {x})}); })},
      {&ops::Trunc::info, unary(truncated)},
      {&ops::Frac::info, unary([](Call& c, Text x) {
         return c.node("Sub", {x, truncated(c, x)});
       })},
      {&ops::NanToNum::info, unary(numbers_for_nan)},
      {&ops::AddScalar::info, unary([](Call& c, Text x) {
         return c.node("Add", {x, number_of(c)});
       })},
      {&ops::MulScalar::info, unary([](Call& c, Text x) {
         return c.node("Mul", {x, number_of(c)});
       })},
      {&ops::DivScalar::info, unary([](Call& c, Text x) {
         return c.node("Div", {x, number_of(c)});
       })},
      {&ops::ScalarSub::info, unary([](Call& c, Text x) {
         return c.node("Sub", {number_of(c), x});
       })},
      {&ops::ScalarDiv::info, unary([](Call& c, Text x) {
         return c.node("Div", {number_of(c), x});
       })},
      {&ops::Add::info, binary([](Call& c, Text a, Text b) {
         return c.node("Add", {a, b});
       })},
      {&ops::Sub::info, binary([](Call& c, Text a, Text b) {
         return c.node("Sub", {a, b});
       })},
      {&ops::Mul::info, binary([](Call& c, Text a, Text b) {
         return c.node("Mul", {a, b});
       })},
      {&ops::Div::info, binary([](Call& c, Text a, Text b) {
         return c.node("Div", {a, b});
       })},
      {&ops::Maximum::info, binary([](Call& c, Text a, Text b) {
         return c.node("Max", {a, b});
       })},
      {&ops::Minimum::info, binary([](Call& c, Text a, Text b) {
         return c.node("Min", {a, b});
       })},
      {&ops::TensorPow::info, binary([](Call& c, Text a, Text b) {
         return c.node("Pow", {a, b});
       })},
      {&ops::Fmod::info, binary(fmod_of)},
      {&ops::Remainder::info, binary(remainder_of)},
      {&ops::FloorDivide::info, binary(floor_quotient)},
      {&ops::Hypot::info, binary([](Call& c, Text a, Text b) {
         const std::string x = c.cast(a, c.computing(), DType::f64), y = c.cast(b, c.computing(), DType::f64);
         const std::string sum = c.node("Add", {c.node("Mul", {x, x}), c.node("Mul", {y, y})});
         return c.cast(c.node("Sqrt", {sum}), DType::f64, c.computing());
       })},
      {&ops::LogAddExp::info, binary([](Call& c, Text a, Text b) {
         const std::string distance = c.node("Neg", {c.node("Abs", {c.node("Sub", {a, b})})});
         return c.node("Add", {c.node("Max", {a, b}), c.node("Softplus", {distance})});
       })},
      {&ops::Xlogy::info, binary([](Call& c, Text a, Text b) {
         const std::string zero = c.scalar(0), product = c.node("Mul", {a, c.node("Log", {b})});
         return c.node("Where", {c.node("Equal", {a, zero}), zero, product});
       })},
      {&ops::Prelu::info, binary([](Call& c, Text a, Text b) {
         return c.node("Where", {c.node("Greater", {a, c.scalar(0)}), a, c.node("Mul", {a, b})});
       })},
      {&ops::Where::info, choose},
      {&ops::Cast::info, convert},
  };
}

}  // namespace binade::onnx
