#include "binade/autograd/derivatives/constant_slope.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"

namespace binade::derivatives {
namespace {

Variable gy(const RecordedCall& call) { return wide(call.gy()); }
Variable x(const RecordedCall& call) { return wide(call.input(0, 0)); }
Variable y(const RecordedCall& call) { return wide(call.output(0, 0)); }

template <class Op>
Variables constant_slope(const RecordedCall& call) {
  return {apply_one<ConstantSlope<Op>>(call.params<Op>(), {call.gy(), call.saved(0)})};
}

Variables silu_gradient(const RecordedCall& call) {
  const Variable s = sigmoid(x(call));
  return {gy(call) * s * (x(call) * (1 - s) + 1)};
}

Variables pow_gradient(const RecordedCall& call) {
  const double exponent = call.params<ops::Pow>().exponent;
  if (exponent == 0) return Variables(1);
  if (exponent == 1) return {call.gy()};
  return {gy(call) * pow(x(call), exponent - 1) * exponent};
}

Variables erf_gradient(const RecordedCall& call) {
  return {gy(call) * exp(-square(x(call))) * 1.12837916709551257390};  // 2 / sqrt(pi)
}

Variables scalar_div_gradient(const RecordedCall& call) {
  return {gy(call) * (-call.params<ops::ScalarDiv>().scalar / square(x(call)))};
}

constexpr Entry kEntries[] = {
    {&ops::Relu::info, constant_slope<ops::Relu>},
    {&ops::Gelu::info, [](const RecordedCall& c) -> Variables { return {gy(c) * gelu_derivative(x(c))}; }},
    {&ops::GeluTanh::info, [](const RecordedCall& c) -> Variables { return {gy(c) * gelu_tanh_derivative(x(c))}; }},
    {&ops::Silu::info, silu_gradient},
    {&ops::Sigmoid::info, [](const RecordedCall& c) -> Variables { return {gy(c) * y(c) * (1 - y(c))}; }},
    {&ops::Tanh::info, [](const RecordedCall& c) -> Variables { return {gy(c) * (1 - square(y(c)))}; }},
    {&ops::Erf::info, erf_gradient},
    {&ops::Exp::info, [](const RecordedCall& c) -> Variables { return {gy(c) * y(c)}; }},
    {&ops::Log::info, [](const RecordedCall& c) -> Variables { return {gy(c) / x(c)}; }},
    {&ops::Softplus::info, [](const RecordedCall& c) -> Variables { return {gy(c) * sigmoid(x(c))}; }},
    {&ops::Sqrt::info, [](const RecordedCall& c) -> Variables { return {gy(c) / (y(c) * 2)}; }},
    {&ops::Pow::info, pow_gradient},
    {&ops::Square::info, [](const RecordedCall& c) -> Variables { return {gy(c) * x(c) * 2}; }},
    {&ops::Clamp::info, constant_slope<ops::Clamp>},
    {&ops::Neg::info, [](const RecordedCall& c) -> Variables { return {-c.gy()}; }},
    {&ops::Abs::info, constant_slope<ops::Abs>},
    {&ops::AddScalar::info, [](const RecordedCall& c) -> Variables { return {c.gy()}; }},
    {&ops::MulScalar::info,
     [](const RecordedCall& c) -> Variables { return {c.gy() * c.params<ops::MulScalar>().scalar}; }},
    {&ops::DivScalar::info,
     [](const RecordedCall& c) -> Variables { return {c.gy() / c.params<ops::DivScalar>().scalar}; }},
    {&ops::ScalarSub::info, [](const RecordedCall& c) -> Variables { return {-c.gy()}; }},
    {&ops::ScalarDiv::info, scalar_div_gradient},
};

}  // namespace

std::span<const Entry> derivatives_of_unary_ops() { return kEntries; }

}  // namespace binade::derivatives
