#pragma once

#include <cmath>
#include <limits>

#include "binade/core/host_device.h"

/// Special functions in double, for host and device, that the C++ library lacks or that are not safe in threads. They
/// propagate NaN. The relative error is below 1e-14, except next to a zero of digamma, where that bound is absolute.
namespace binade::math {

inline constexpr double kPi = 3.14159265358979323846, kLn2 = 0.69314718055994530942;

/// Returns log |gamma(x)|; inf at 0 and the negative integers. std::lgamma writes a global variable.
BINADE_HD double lgamma(double x) {
#if defined(__CUDA_ARCH__)
  return ::lgamma(x);
#else
  int sign = 0;
  return __builtin_lgamma_r(x, &sign);
#endif
}

/// Returns y with erf(y) = x; infinite at -1 and 1, NaN beyond. Begins with Winitzki's approximation (2008), whose
/// error is 2e-3, and takes three steps of Halley's method, which cube the error. Near 1 the residual is computed with
/// erfc, which does not cancel.
BINADE_HD double erfinv(double x) {
  const double a = std::fabs(x), rest = 1 - a;
  if (!(rest > 0)) return rest == 0 ? x * std::numeric_limits<double>::infinity() : std::nan("");
  const double log_rest = std::log(rest * (1 + a)), t = 2 / (kPi * 0.147) + log_rest / 2;
  double y = a < 0.1 ? a / 1.12837916709551257390 : std::sqrt(std::sqrt(t * t - log_rest / 0.147) - t);
  for (int i = 0; i < 3; ++i) {
    const double residual = a < 0.5 ? std::erf(y) - a : rest - std::erfc(y);
    const double step = residual / (1.12837916709551257390 * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

/// Returns the derivative of lgamma: NaN at the negative integers, -inf at 0 and inf at -0. The recurrence moves x
/// above 10, where the asymptotic series is used (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
BINADE_HD double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double y = 0;
  if (x < 0) {
    if (x == std::floor(x)) return std::nan("");
    y = -kPi / std::tan(kPi * (x - std::rint(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) y -= 1 / x;
  const double s = 1 / (x * x);
  const double series = s * (1.0 / 12 -
                             s * (1.0 / 120 -
                                  s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760 - s / 12))))));
  return y + std::log(x) - 0.5 / x - series;
}

/// Returns the derivative of digamma; inf at 0 and the negative integers (Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12).
BINADE_HD double trigamma(double x) {
  if (x <= 0 && x == std::floor(x)) return std::numeric_limits<double>::infinity();
  double y = 0, sign = 1;
  if (x < 0) {
    const double sine = std::sin(kPi * (x - std::rint(x)));
    y = kPi / sine * (kPi / sine);
    sign = -1;
    x = 1 - x;
  }
  for (; x < 10; x += 1) y += sign / (x * x);
  const double s = 1 / (x * x);
  const double series = s * (1.0 / 6 -
                             s * (1.0 / 30 -
                                  s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66 - s * (691.0 / 2730 - s * 7 / 6))))));
  return y + sign * (1 / x + s / 2 + series / x);
}

}  // namespace binade::math
