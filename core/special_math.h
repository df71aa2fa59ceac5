#pragma once

#include <cmath>
#include <limits>

#include "binade/core/host_device.h"

/// Special functions in double, for host and device, which the C++ library lacks or which are not thread-safe there.
/// They propagate NaN. The relative error is below 1e-14; next to a zero of digamma, the absolute error is.
namespace binade::math {

inline constexpr double kPi = 3.14159265358979323846, kLn2 = 0.69314718055994530942;

/// Returns log |gamma(x)|; inf at 0 and the negative integers. Unlike std::lgamma, it writes no global variable.
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

/// Returns the Hurwitz zeta function, the sum of (q + k)^-s over k >= 0, for whole s >= 2; inf at q = 0, -1, … A
/// negative q is reduced to positive ones, because the sum over all integers k has period 1 in q. Euler-Maclaurin is
/// used for w >= s + 12 (Abramowitz and Stegun 23.1.30); there, each term is less than 1/20 of the one before.
BINADE_HD double hurwitz_zeta(double s, double q) {
  if (q <= 0 && q == std::floor(q)) return std::numeric_limits<double>::infinity();
  const auto of_positive = [s](double w) {
    if (w > 1e15) return std::pow(w, 1 - s) / (s - 1);
    double y = 0;
    for (; w < s + 12; w += 1) y += std::pow(w, -s);
    constexpr double kTerms[] = {1.0 / 12,          -1.0 / 720,
                                 1.0 / 30240,       -1.0 / 1209600,
                                 1.0 / 47900160,    -691.0 / 1307674368000,
                                 1.0 / 74724249600, -3617.0 / 10670622842880000};  // B_2j / (2j)!
    double term = s / w, series = 0;
    for (int j = 0; j < 8; ++j) {
      series += kTerms[j] * term;
      term *= (s + 2 * j + 1) / w * ((s + 2 * j + 2) / w);
    }
    return y + std::pow(w, -s) * (w / (s - 1) + 0.5 + series);
  };
  if (!(q < 0)) return of_positive(q);
  if (q > -0.5) return std::pow(q, -s) + of_positive(q + 1);
  const double part = q - std::floor(q), sign = std::fmod(s, 2) == 0 ? 1 : -1;
  return of_positive(part) + sign * (of_positive(1 - part) - of_positive(1 - q));
}

/// Returns derivative n >= 0 of digamma; infinite at 0 and, for n >= 1, at the negative integers; 0 at inf for n >= 1.
BINADE_HD double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  return (std::fmod(n, 2) == 0 ? -1 : 1) * std::tgamma(n + 1) * hurwitz_zeta(n + 1, x);
}

/// Returns the modified Bessel function of the first kind of order 0 or 1: for |x| <= 20 by its power series, whose
/// terms have one sign, else by the asymptotic series (Abramowitz and Stegun 9.6.10, 9.7.1). Overflows for |x| >
/// 713.98.
BINADE_HD double bessel_i(int order, double x) {
  const double a = std::fabs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (a - a != 0) return sign * a;  // an infinity or NaN
  double term = 1, y = 1;
  if (a <= 20) {
    const double s = a * a / 4;
    for (int k = 1; k < 60; ++k) {
      term *= s / (k * (k + order));
      y += term;
    }
    return order == 1 ? x / 2 * y : y;
  }
  for (int k = 1; k < 30; ++k) {
    term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * a * k);
    y += term;
  }
  const double half = std::exp(a / 2);  // exp(a) overflows before the result does
  return sign * half * (y / std::sqrt(2 * kPi * a)) * half;
}

}  // namespace binade::math
