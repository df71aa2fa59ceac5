#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/constant_slope.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/operands.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/math.h"
#include "binade/core/ops/activations.h"
#include "binade/core/ops/math_functions.h"
#include "binade/core/ops/rare_binary.h"
#include "binade/core/ops/rounding.h"
#include "binade/core/ops/unary.h"

/// Derivatives of the ops in core/ops/math_functions.h, rounding.h, activations.h and rare_binary.h, and of the
/// activations of unary.h that are built from them.
namespace binade::derivatives {
namespace {

using Call = const RecordedCall&;

Variable gy(Call call) { return wide(call.gy()); }
Variable x(Call call) { return wide(call.input(0, 0)); }
Variable y(Call call) { return wide(call.output(0, 0)); }

Variable zero_beside(const Variable& v) { return Tensor::zeros(Shape{}, v.dtype(), v.device()); }
/// Returns v where the condition holds, else 0.
Variable only_where(const Variable& condition, const Variable& v) { return where(condition, v, zero_beside(v)); }
/// Returns min(v, 0), so that exp() cannot overflow for the elements that where() discards.
Variable not_above_zero(const Variable& v) { return minimum(v, zero_beside(v)); }

template <class Op>
Variables constant_slope(Call call) {
  return {apply_one<ConstantSlope<Op>>(call.params<Op>(), {call.gy(), call.saved(0)})};
}
Variables no_slope(Call) { return Variables(1); }

/// Returns v with each 0 replaced by 1, for use as a divisor.
Variable other_than_zero(const Variable& v) { return where(v == 0, Tensor::scalar(1, v.dtype(), v.device()), v); }
/// Uses a series near 0, as ops::Sinc does, because the quotient loses digits there and has no derivatives at 0. Each
/// formula gets a constant for the elements of the other formula, so that its derivatives there are 0.
Variables sinc_gradient(Call c) {
  const Variable v = x(c), near = abs(v) < 0.25;
  const Variable far = where(near, Tensor::scalar(1, v.dtype(), v.device()), v);
  const Variable rest = far - round(far.detach() * 0.5) * 2.0;  // exact, and cos(pi rest) is cos(pi far)
  const Variable quotient = (cos(rest * math::kPi) - sinc(far)) / far;
  const Variable u = only_where(near, v) * math::kPi, t = square(u);
  Variable series = t * (-1.0 / 93405312000) + 1.0 / 518918400;
  for (const double next : {1.0 / 3991680, 1.0 / 45360, 1.0 / 840, 1.0 / 30, 1.0 / 3}) series = next - t * series;
  return {gy(c) * where(near, u * series * -math::kPi, quotient)};
}
Variables i1_gradient(Call c) {
  const Variable half = Tensor::scalar(0.5, x(c).dtype(), x(c).device());
  return {gy(c) * (i0(x(c)) - where(x(c) == 0, half, i1(x(c)) / other_than_zero(x(c))))};
}

Variables elu_gradient(Call c) {
  return {where(x(c) > 0, gy(c), gy(c) * exp(not_above_zero(x(c))) * c.params<ops::Elu>().alpha)};
}
Variables selu_gradient(Call c) {
  using Selu = ops::Selu;
  return {where(x(c) > 0, gy(c), gy(c) * exp(not_above_zero(x(c))) * Selu::kAlpha) * Selu::kScale};
}
Variables celu_gradient(Call c) {
  return {where(x(c) > 0, gy(c), gy(c) * exp(not_above_zero(x(c)) / c.params<ops::Celu>().alpha))};
}
Variables hardswish_gradient(Call c) {
  const Variable between = gy(c) * ((x(c) * 2.0 + 3.0) / 6.0);
  return {where(x(c) >= 3, gy(c), only_where(x(c) > -3, between))};
}
Variables mish_gradient(Call c) {
  const Variable t = tanh(softplus(x(c)));
  return {gy(c) * (t + x(c) * sigmoid(x(c)) * (1.0 - square(t)))};
}
Variables softplus_beta_gradient(Call c) {
  const auto& p = c.params<ops::SoftplusBeta>();
  const Variable scaled = x(c) * p.beta;
  return {where(scaled > p.threshold, gy(c), gy(c) * sigmoid(scaled))};
}

Variables atan2_gradients(Call call) {
  const Operands in = Operands::of<ops::Atan2>(call);
  const Variable radius = other_than_zero(hypot(in.a, in.b));  // the gradient at the origin is 0
  return {sum_to(gy(call) * (in.b / radius) / radius, call.described(0).shape),
          sum_to(-gy(call) * (in.a / radius) / radius, call.described(1).shape)};
}
Variables tensor_pow_gradients(Call call) {
  const Operands in = Operands::of<ops::TensorPow>(call);
  return {sum_to(only_where(in.b != 0, gy(call) * in.b * pow(in.a, in.b - 1.0)), call.described(0).shape),
          sum_to(only_where(logical_not(logical_and(in.a == 0, in.b >= 0)), gy(call) * pow(in.a, in.b) * log(in.a)),
                 call.described(1).shape)};
}
/// The gradient of a is gy; that of b is -gy times a / b, truncated for fmod and rounded down for remainder.
template <class Op>
Variables remainder_gradients(Call call) {
  Variables g(2);
  if (call.needs(0)) g[0] = sum_to(call.gy(), call.described(0).shape);
  if (!call.needs(1)) return g;
  const Operands in = Operands::of<Op>(call);
  const bool truncates = std::is_same_v<Op, ops::Fmod>;
  g[1] = sum_to(-gy(call) * (truncates ? trunc(in.a / in.b) : floor_divide(in.a, in.b)), call.described(1).shape);
  return g;
}
Variables hypot_gradients(Call call) {
  const Operands in = Operands::of<ops::Hypot>(call);
  const Variable radius = hypot(in.a, in.b), divisor = other_than_zero(radius);
  const auto share = [&](const Variable& leg) { return only_where(radius != 0, gy(call) * (leg / divisor)); };
  return {sum_to(share(in.a), call.described(0).shape), sum_to(share(in.b), call.described(1).shape)};
}
Variables copysign_gradients(Call call) {
  if (!call.needs(0)) return Variables(2);
  const Operands in = Operands::of<ops::Copysign>(call);
  const Variable one = Tensor::scalar(1, in.b.dtype(), in.b.device());
  return {sum_to(gy(call) * (sign(in.a) * copysign(one, in.b)), call.described(0).shape), {}};
}
Variables logaddexp_gradients(Call call) {
  const Operands in = Operands::of<ops::LogAddExp>(call);
  const Variable same_infinity = logical_and(in.a == in.b, isinf(in.a));  // their difference is NaN
  const Variable difference = only_where(logical_not(same_infinity), in.a - in.b);
  return {sum_to(gy(call) * sigmoid(difference), call.described(0).shape),
          sum_to(gy(call) * sigmoid(-difference), call.described(1).shape)};
}
Variables xlogy_gradients(Call call) {
  const Operands in = Operands::of<ops::Xlogy>(call);
  return {sum_to(only_where(logical_or(in.a != 0, in.b > 0), gy(call) * log(in.b)), call.described(0).shape),
          sum_to(only_where(in.a != 0, gy(call) * in.a / in.b), call.described(1).shape)};
}
Variables prelu_gradients(Call call) {
  const Operands in = Operands::of<ops::Prelu>(call);
  const Variable above = in.a > 0;
  return {sum_to(where(above, gy(call), gy(call) * in.b), call.described(0).shape),
          sum_to(where(above, zero_beside(gy(call)), gy(call) * in.a), call.described(1).shape)};
}
Variables norm_slope_gradients(Call call) {
  const Operands in = Operands::of<ops::NormSlope>(call);
  const double p = call.params<ops::NormSlope>().p;
  if (p == 1) return Variables(2);
  const Variable share = abs(in.a) / in.b;
  const Variable value = apply_one<ops::NormSlope>({p}, {in.a, in.b});
  const Variable of_a = p == 2 ? gy(call) / in.b : gy(call) * pow(share, p - 2) / in.b * (p - 1);
  return {sum_to(only_where(in.b != 0, of_a), call.described(0).shape),
          sum_to(only_where(in.b != 0, -gy(call) * value / in.b * (p - 1)), call.described(1).shape)};
}

constexpr Entry kEntries[] = {
    {&ops::Sin::info, [](Call c) -> Variables { return {gy(c) * cos(x(c))}; }},
    {&ops::Cos::info, [](Call c) -> Variables { return {-gy(c) * sin(x(c))}; }},
    {&ops::Tan::info, [](Call c) -> Variables { return {gy(c) * (square(y(c)) + 1.0)}; }},
    {&ops::Asin::info, [](Call c) -> Variables { return {gy(c) * rsqrt(1.0 - square(x(c)))}; }},
    {&ops::Acos::info, [](Call c) -> Variables { return {-gy(c) * rsqrt(1.0 - square(x(c)))}; }},
    {&ops::Atan::info, [](Call c) -> Variables { return {gy(c) / (square(x(c)) + 1.0)}; }},
    {&ops::Sinh::info, [](Call c) -> Variables { return {gy(c) * cosh(x(c))}; }},
    {&ops::Cosh::info, [](Call c) -> Variables { return {gy(c) * sinh(x(c))}; }},
    {&ops::Asinh::info, [](Call c) -> Variables { return {gy(c) * rsqrt(square(x(c)) + 1.0)}; }},
    {&ops::Acosh::info, [](Call c) -> Variables { return {gy(c) * rsqrt(square(x(c)) - 1.0)}; }},
    {&ops::Atanh::info, [](Call c) -> Variables { return {gy(c) / (1.0 - square(x(c)))}; }},
    {&ops::Log1p::info, [](Call c) -> Variables { return {gy(c) / (x(c) + 1.0)}; }},
    {&ops::Expm1::info, [](Call c) -> Variables { return {gy(c) * exp(x(c))}; }},
    {&ops::Log2::info, [](Call c) -> Variables { return {gy(c) / (x(c) * math::kLn2)}; }},
    {&ops::Log10::info, [](Call c) -> Variables { return {gy(c) / (x(c) * 2.30258509299404568402)}; }},
    {&ops::Exp2::info, [](Call c) -> Variables { return {gy(c) * y(c) * math::kLn2}; }},
    {&ops::Rsqrt::info, [](Call c) -> Variables { return {gy(c) * pow(y(c), 3.0) * -0.5}; }},
    {&ops::Erfinv::info,
     [](Call c) -> Variables { return {gy(c) * exp(square(y(c))) * 0.88622692545275801365}; }},  // sqrt(pi) / 2
    {&ops::Lgamma::info, [](Call c) -> Variables { return {gy(c) * digamma(x(c))}; }},
    {&ops::Digamma::info, [](Call c) -> Variables { return {gy(c) * polygamma(1, x(c))}; }},
    {&ops::Erfc::info,
     [](Call c) -> Variables { return {gy(c) * exp(-square(x(c))) * -1.12837916709551257390}; }},  // 2 / sqrt(pi)
    {&ops::Sinc::info, sinc_gradient},
    {&ops::I0::info, [](Call c) -> Variables { return {gy(c) * i1(x(c))}; }},
    {&ops::I1::info, i1_gradient},
    {&ops::Polygamma::info,
     [](Call c) -> Variables { return {gy(c) * polygamma(static_cast<int>(c.params<ops::Polygamma>().n) + 1, x(c))}; }},
    {&ops::Sign::info, no_slope},
    {&ops::Floor::info, no_slope},
    {&ops::Ceil::info, no_slope},
    {&ops::Trunc::info, no_slope},
    {&ops::Round::info, no_slope},
    {&ops::Frac::info, [](Call c) -> Variables { return {c.gy()}; }},
    {&ops::NanToNum::info, constant_slope<ops::NanToNum>},
    {&ops::LeakyRelu::info, constant_slope<ops::LeakyRelu>},
    {&ops::Elu::info, elu_gradient},
    {&ops::Hardswish::info, hardswish_gradient},
    {&ops::Mish::info, mish_gradient},
    {&ops::Selu::info, selu_gradient},
    {&ops::Celu::info, celu_gradient},
    {&ops::SoftplusBeta::info, softplus_beta_gradient},
    {&ops::Hardsigmoid::info, constant_slope<ops::Hardsigmoid>},
    {&ops::Hardtanh::info, constant_slope<ops::Hardtanh>},
    {&ops::Logsigmoid::info, [](Call c) -> Variables { return {gy(c) * sigmoid(-x(c))}; }},
    {&ops::Hardshrink::info, constant_slope<ops::Hardshrink>},
    {&ops::Softshrink::info, constant_slope<ops::Softshrink>},
    {&ops::Tanhshrink::info, [](Call c) -> Variables { return {gy(c) * square(tanh(x(c)))}; }},
    {&ops::Threshold::info, constant_slope<ops::Threshold>},
    {&ops::Atan2::info, atan2_gradients},
    {&ops::TensorPow::info, tensor_pow_gradients},
    {&ops::Fmod::info, remainder_gradients<ops::Fmod>},
    {&ops::Remainder::info, remainder_gradients<ops::Remainder>},
    {&ops::FloorDivide::info, [](Call) { return Variables(2); }},
    {&ops::Hypot::info, hypot_gradients},
    {&ops::Copysign::info, copysign_gradients},
    {&ops::LogAddExp::info, logaddexp_gradients},
    {&ops::Xlogy::info, xlogy_gradients},
    {&ops::Prelu::info, prelu_gradients},
    {&ops::NormSlope::info, norm_slope_gradients},
};

}  // namespace

std::span<const Entry> derivatives_of_rare_ops() { return kEntries; }

}  // namespace binade::derivatives
