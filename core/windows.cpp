#include <algorithm>
#include <cmath>

#include "binade/core/make.h"
#include "binade/core/special_math.h"

namespace binade {
namespace {

using math::kPi;

/// Returns f(0) … f(count - 1), computed in f64 and rounded to `dtype`.
template <class F>
Tensor tensor_of(std::int64_t count, DType dtype, Device device, F&& f) {
  Tensor t = Tensor::empty(Shape{count}, DType::f64);
  double* to = t.mutable_data<double>();
  for (std::int64_t k = 0; k < count; ++k) to[k] = f(static_cast<double>(k));
  return t.to(dtype).to(device);
}

/// Returns the window of n values f(k / N), where N is n if `periodic`, else n - 1; only 1 if n = 1.
template <class F>
Tensor window(const char* name, std::int64_t n, bool periodic, DType dtype, Device device, F&& f) {
  check<ArgumentError>(n >= 0, "{}: wanted 0 or more values, got {}", name, n);
  check<DTypeError>(is_floating(dtype), "{}: wanted a floating dtype, got {}", name, name_of(dtype));
  const auto last = static_cast<double>(periodic ? n : n - 1);
  return tensor_of(n, dtype, device, [&](double k) { return n == 1 ? 1.0 : f(k / last); });
}

}  // namespace

Tensor hann_window(std::int64_t n, bool periodic, DType dtype, Device device) {
  return window("hann_window", n, periodic, dtype, device, [](double t) { return 0.5 - 0.5 * std::cos(2 * kPi * t); });
}

Tensor hamming_window(std::int64_t n, bool periodic, double alpha, double beta, DType dtype, Device device) {
  return window("hamming_window", n, periodic, dtype, device,
                [=](double t) { return alpha - beta * std::cos(2 * kPi * t); });
}

Tensor blackman_window(std::int64_t n, bool periodic, DType dtype, Device device) {
  return window("blackman_window", n, periodic, dtype, device,
                [](double t) { return 0.42 - 0.5 * std::cos(2 * kPi * t) + 0.08 * std::cos(4 * kPi * t); });
}

Tensor bartlett_window(std::int64_t n, bool periodic, DType dtype, Device device) {
  return window("bartlett_window", n, periodic, dtype, device, [](double t) { return 1 - std::abs(2 * t - 1); });
}

Tensor kaiser_window(std::int64_t n, bool periodic, double beta, DType dtype, Device device) {
  check<ArgumentError>(beta >= 0 && beta <= 700, "kaiser_window: wanted beta from 0 to 700, got {}", beta);
  const double most = math::bessel_i(0, beta);
  return window("kaiser_window", n, periodic, dtype, device, [beta, most](double t) {
    const double x = 2 * t - 1;
    return math::bessel_i(0, beta * std::sqrt(std::max(0.0, 1 - x * x))) / most;
  });
}

namespace {

void check_spacing(const char* name, std::int64_t n, double spacing, DType dtype) {
  check<ArgumentError>(n >= 1 && spacing - spacing == 0 && spacing != 0,
                       "{}: wanted 1 or more samples and a finite spacing other than 0, got {} and {}", name, n,
                       spacing);
  check<DTypeError>(is_floating(dtype), "{}: wanted a floating dtype, got {}", name, name_of(dtype));
}

}  // namespace

Tensor fftfreq(std::int64_t n, double spacing, DType dtype, Device device) {
  check_spacing("fftfreq", n, spacing, dtype);
  const auto count = static_cast<double>(n), half = static_cast<double>((n + 1) / 2);
  return tensor_of(n, dtype, device, [=](double k) { return (k < half ? k : k - count) / (count * spacing); });
}

Tensor rfftfreq(std::int64_t n, double spacing, DType dtype, Device device) {
  check_spacing("rfftfreq", n, spacing, dtype);
  return tensor_of(n / 2 + 1, dtype, device, [=](double k) { return k / (static_cast<double>(n) * spacing); });
}

}  // namespace binade
