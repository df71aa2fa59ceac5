#include "binade/autograd/functions/composites.h"

#include <cmath>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/order.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/special_math.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

Variable scalar_like(const Variable& x, double value) { return Tensor::scalar(value, x.dtype(), x.device()); }

/// Returns x in f32, or in f64 if it is f64.
Variable wide(const Variable& x) { return cast(x, is_floating(x.dtype()) ? accumulate_dtype(x.dtype()) : DType::f32); }

/// Returns y in the dtype of x. If x has whole numbers, y stays f32.
Variable stored_like(const Variable& x, const Variable& y) { return is_floating(x.dtype()) ? cast(y, x.dtype()) : y; }

/// Casts operands to f32 (f64 if their common dtype is f64), and rounds the result once: to the common dtype of the
/// operands, or to f32 if all are whole numbers.
class WideCompute {
 public:
  explicit WideCompute(std::initializer_list<const Variable*> operands) {
    DType common = (*operands.begin())->dtype();
    for (const Variable* x : operands) common = promoted(common, x->dtype());
    stored_ = is_floating(common) ? common : DType::f32;
  }
  Variable wide(const Variable& x) const { return cast(x, accumulate_dtype(stored_)); }
  Variable rounded(const Variable& y) const { return cast(y, stored_); }

 private:
  DType stored_;
};

Variable scaled(const Variable& x, double factor) { return factor == 1 ? x : x * factor; }

}  // namespace

Variable lerp(const Variable& given_a, const Variable& given_b, double weight) {
  const WideCompute one({&given_a, &given_b});
  const Variable a = one.wide(given_a), b = one.wide(given_b), span = b - a;
  return one.rounded(weight < 0.5 ? a + span * weight : b - span * (1 - weight));
}

Variable lerp(const Variable& given_a, const Variable& given_b, const Variable& given_weight) {
  const WideCompute one({&given_a, &given_b, &given_weight});
  const Variable a = one.wide(given_a), b = one.wide(given_b), weight = one.wide(given_weight), span = b - a;
  return one.rounded(where(weight < 0.5, a + weight * span, b - span * (1.0 - weight)));
}

Variable addcmul(const Variable& x, const Variable& a, const Variable& b, double value) {
  const bool whole = !is_floating(x.dtype()) && !is_floating(a.dtype()) && !is_floating(b.dtype());
  if (whole && value == std::trunc(value) && std::abs(value) < 0x1p63)
    return value == 1 ? x + a * b : x + a * b * static_cast<std::int64_t>(value);
  const WideCompute one({&x, &a, &b});
  return one.rounded(one.wide(x) + scaled(one.wide(a) * one.wide(b), value));
}

Variable addcdiv(const Variable& x, const Variable& a, const Variable& b, double value) {
  const WideCompute one({&x, &a, &b});
  return one.rounded(one.wide(x) + scaled(one.wide(a) / one.wide(b), value));
}

Variable fmax(const Variable& a, const Variable& b) { return where(logical_or(a >= b, isnan(b)), a, b); }
Variable fmin(const Variable& a, const Variable& b) { return where(logical_or(a <= b, isnan(b)), a, b); }

Variable heaviside(const Variable& x, const Variable& at_zero) {
  const Variable fixed = x.detach();
  const Variable step = is_floating(x.dtype()) ? (sign(fixed) + 1.0) / 2.0 : cast(fixed > 0, x.dtype());
  return where(fixed == 0, at_zero.detach(), step);
}

Variable logaddexp2(const Variable& a, const Variable& b) {
  const WideCompute one({&a, &b});
  return one.rounded(logaddexp(one.wide(a) * math::kLn2, one.wide(b) * math::kLn2) / math::kLn2);
}

Variable logit(const Variable& x, std::optional<double> eps) {
  check<ArgumentError>(!eps || (*eps >= 0 && *eps <= 0.5), "{}: wanted eps in [0, 0.5], got {}", where("logit"),
                       eps.value_or(0));
  Variable z = wide(x);
  if (eps) z = clamp(z, *eps, 1 - *eps);
  return stored_like(x, log(z) - log1p(-z));
}

Variable deg2rad(const Variable& x) { return x * (math::kPi / 180); }
Variable rad2deg(const Variable& x) { return x * (180 / math::kPi); }

Variable signbit(const Variable& x) {
  return is_floating(x.dtype()) ? copysign(scalar_like(x, 1), x.detach()) < 0 : x < 0;
}

Variable mvlgamma(const Variable& x, int p) {
  check<ArgumentError>(p >= 1 && p <= 1000, "{}: wanted a dimension in [1, 1000], got {}", where("mvlgamma"), p);
  const Variable z = wide(x);
  Variable total = lgamma(z) + p * (p - 1) / 4.0 * std::log(math::kPi);
  for (int j = 1; j < p; ++j) total = total + lgamma(z - j / 2.0);
  return stored_like(x, total);
}

Variable polygamma(int n, const Variable& x) {
  check<ArgumentError>(n >= 0 && n <= 150, "{}: wanted an order in [0, 150], got {}", where("polygamma"), n);
  return n == 0 ? digamma(x) : detail::elementwise<ops::Polygamma>({static_cast<double>(n)}, {x});
}

Variable isclose(const Variable& a, const Variable& b, const CloseOptions& options) {
  check<ArgumentError>(options.rtol >= 0 && options.atol >= 0, "{}: wanted tolerances of 0 or more, got {} and {}",
                       where("isclose"), options.rtol, options.atol);
  const NoGradGuard guard;
  Variable close = a == b;
  if (options.equal_nan) close = logical_or(close, logical_and(isnan(a), isnan(b)));
  const Variable x = cast(a, DType::f64), y = cast(b, DType::f64), distance = abs(x - y);
  return logical_or(close, logical_and(isfinite(distance), distance <= abs(y) * options.rtol + options.atol));
}

bool allclose(const Variable& a, const Variable& b, const CloseOptions& options) {
  return all(isclose(a, b, options)).value().to(Device::cpu()).item() != 0;
}

bool equal(const Variable& a, const Variable& b) {
  return a.shape() == b.shape() && all(a == b).value().to(Device::cpu()).item() != 0;
}

Variable isin(const Variable& x, const Variable& values) {
  const NoGradGuard guard;
  if (values.value().numel() == 0) return Tensor::zeros(x.shape(), DType::boolean, x.device());
  DType dtype = promoted(x.dtype(), values.dtype());
  if (dtype == DType::boolean) dtype = DType::u8;
  const Variable wanted = cast(x, dtype),
                 sorted = sort(cast(reshape(values, {values.value().numel()}), dtype), 0).values;
  const Variable at = clamp(bucketize(wanted, sorted), 0, static_cast<double>(sorted.dim(0) - 1));
  return take(sorted, at) == wanted;
}

}  // namespace binade
