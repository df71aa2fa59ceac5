#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "binade/core/tensor.h"

/// Functions that make tensors: ranges, identity matrices, random numbers, windows. Random numbers depend on the seed
/// of the thread's Runtime, the step, the micro-batch and the position of the call among the ops and random tensors of
/// the step, so that a resumed, replayed or recomputed step draws the same numbers. Every device draws the same bits.
/// Outside of a step, the numbers depend on how many ops and random tensors the thread has computed before.
namespace binade {

/// Returns begin, begin + step, … below `end` (above it for a negative step). Element i is begin + i step, computed in
/// f64 (i64 for whole numbers) and rounded once. Throws ArgumentError for a step of 0 or bounds that are not finite.
Tensor arange_of(double begin, double end, double step, DType dtype, Device device);
Tensor arange_of(std::int64_t begin, std::int64_t end, std::int64_t step, DType dtype, Device device);
/// Integer arguments give i64, others f32, unless a dtype is given.
template <Number T>
Tensor arange(T begin, T end, T step = 1, DType dtype = std::is_integral_v<T> ? DType::i64 : DType::f32,
              Device device = Device::cpu()) {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  return arange_of(static_cast<Wide>(begin), static_cast<Wide>(end), static_cast<Wide>(step), dtype, device);
}
template <Number T>
Tensor arange(T end) {
  return arange(T(0), end);
}
/// Returns `count` evenly spaced numbers from `begin` to `end`, both included; only `begin` if `count` is 1.
Tensor linspace(double begin, double end, std::int64_t count, DType dtype = DType::f32, Device device = Device::cpu());
/// Returns a matrix with ones on the diagonal and zeros elsewhere. If `columns` < 0, the matrix is square.
Tensor eye(std::int64_t rows, std::int64_t columns = -1, DType dtype = DType::f32, Device device = Device::cpu());

/// Returns `count` powers of `base`. Their exponents are evenly spaced from `begin` to `end`, both included.
Tensor logspace(double begin, double end, std::int64_t count, double base = 10, DType dtype = DType::f32,
                Device device = Device::cpu());
/// Returns a tensor of ones.
Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
/// Return the positions of the elements that tril() or triu() keeps (those on and below, or on and above, diagonal k)
/// as an i64 tensor (2, n): row numbers, then column numbers. The positions are in row-major order.
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t k = 0, Device device = Device::cpu());
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t k = 0, Device device = Device::cpu());

/// Return a tensor with x's shape, dtype and device. empty_like() does not initialize it.
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);

/// Uniform numbers in [0, 1), multiples of 2^-24, rounded to `dtype` (a half may round to 1). Throws DTypeError unless
/// it is floating.
Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
/// Standard normal numbers, by Box-Muller from 32-bit words: at most 6.7 in magnitude.
Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
/// Normal numbers with this mean and standard deviation. Throws ArgumentError if the latter is negative.
Tensor normal(double mean, double deviation, const Shape& shape, DType dtype = DType::f32,
              Device device = Device::cpu());
/// Uniform whole numbers in [low, high), of any dtype that holds them. Throws ArgumentError unless low < high.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64,
               Device device = Device::cpu());
/// Like randint(), with the shape, dtype and device of x.
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high);
/// A random permutation of 0 … n - 1 (i64). It is drawn on the host, so a step that calls it for a GPU is not captured.
Tensor randperm(std::int64_t n, Device device = Device::cpu());
/// 1 with probability p[i], else 0, in the shape and dtype of p (floating). Probabilities below 0 count as 0, above 1
/// as 1, NaN as 0.
Tensor bernoulli(const Tensor& p);
/// Draws one number from the Poisson distribution with each rate (floating, finite, from 0 to 2^53). The result has the
/// shape and dtype of `rates`. Drawn on the host, by multiplying uniform numbers for rates below 10, else by
/// transformed rejection (Hormann, "The transformed rejection method for generating Poisson random variables", 1993).
Tensor poisson(const Tensor& rates);
/// Draws `count` positions (i64) from each row of weights, (n) or (rows, n), with probabilities in proportion to the
/// weights. Without replacement no position is drawn twice. Drawn on the host. Throws ArgumentError for weights that
/// are negative, not finite or all 0, and if a row has fewer than `count` positive weights to draw without replacement.
Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement = false);

/// Window functions of n values for spectral analysis, computed in f64 and rounded once. A periodic window is the
/// symmetric window of n + 1 values without its last value, so that overlapping copies add up evenly. A window of one
/// value is 1. With N = n - 1 (n if periodic) and c = cos(2 pi k / N):
///
///   hann      0.5 - 0.5 c
///   hamming   alpha - beta c
///   blackman  0.42 - 0.5 c + 0.08 cos(4 pi k / N)
///   bartlett  1 - |2 k / N - 1|
///   kaiser    I0(beta sqrt(1 - (2 k / N - 1)^2)) / I0(beta), I0: modified Bessel function of the first kind
///
/// Throw ArgumentError unless n >= 0 and, for kaiser, beta is in [0, 700].
Tensor hann_window(std::int64_t n, bool periodic = true, DType dtype = DType::f32, Device device = Device::cpu());
Tensor hamming_window(std::int64_t n, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                      DType dtype = DType::f32, Device device = Device::cpu());
Tensor blackman_window(std::int64_t n, bool periodic = true, DType dtype = DType::f32, Device device = Device::cpu());
Tensor bartlett_window(std::int64_t n, bool periodic = true, DType dtype = DType::f32, Device device = Device::cpu());
Tensor kaiser_window(std::int64_t n, bool periodic = true, double beta = 12, DType dtype = DType::f32,
                     Device device = Device::cpu());

/// Return the frequencies of the elements of fft() or rfft() of n samples that are `spacing` apart. Element k has
/// frequency k / (n spacing); in fftfreq(), elements from (n + 1) / 2 on have (k - n) / (n spacing). Throw
/// ArgumentError unless n >= 1 and the spacing is finite and not 0.
Tensor fftfreq(std::int64_t n, double spacing = 1, DType dtype = DType::f32, Device device = Device::cpu());
Tensor rfftfreq(std::int64_t n, double spacing = 1, DType dtype = DType::f32, Device device = Device::cpu());

}  // namespace binade
