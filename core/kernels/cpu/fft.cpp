#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#pragma GCC visibility push(hidden)  // the symbols of a header-only library are not part of Binade's interface
#include <kissfft/kissfft.hh>
#pragma GCC visibility pop

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/widened.h"
#include "binade/core/one_rounding.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

using Complex = std::complex<double>;
using Line = std::vector<Complex>;

constexpr double kTurn = 6.283185307179586476925286766559;
/// KissFFT takes n p operations for a prime factor p of n. For larger factors than this, Bluestein's takes fewer.
constexpr std::int64_t kLargestRadix = 61;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
/// Returns exp(i kTurn k / n).
Complex root(std::int64_t k, std::int64_t n) {
  return std::polar(1.0, kTurn * (static_cast<double>(k) / static_cast<double>(n)));
}
/// Products without the special treatment of infinities that std::complex has by default.
Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

std::int64_t largest_factor(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t p = 2; p * p <= n; ++p)
    while (n % p == 0) {
      largest = p;
      n /= p;
    }
  return std::max(largest, n);
}

/// The transform of n <= 2^30 complex numbers in double, without a scale. Each thread needs its own copy of the object,
/// because KissFFT and Bluestein's algorithm write to buffers in it.
class Transform {
 public:
  Transform(std::int64_t n, bool inverse)
      : n_(n), padded_(largest_factor(n) > kLargestRadix ? power_above(2 * n - 1) : n), fft_(size(padded_), inverse) {
    if (padded_ == n) return;
    // The sum over j of x_j e(j k) is e(k k / 2) times the sum of (x_j e(j j / 2)) e(-(k - j)^2 / 2), a convolution
    // (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970).
    chirp_.resize(size(n));
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t square = k * k % (2 * n);
      chirp_[size(k)] = root(inverse ? square : -square, 2 * n);
    }
    filter_.assign(size(padded_), 0);
    back_ = kissfft<double>(size(padded_), !inverse);
    for (std::int64_t k = 0; k < n; ++k)
      filter_[size(k)] = filter_[size((padded_ - k) % padded_)] = std::conj(chirp_[size(k)]) /
                                                                  static_cast<double>(padded_);
    buffer_ = filter_;
    fft_.transform(buffer_.data(), filter_.data());
    other_.resize(size(padded_));
  }

  /// REQUIRES that `from` and `to` do not overlap.
  void run(const Complex* from, Complex* to) {
    if (padded_ == n_) return fft_.transform(from, to);
    std::fill(buffer_.begin(), buffer_.end(), 0);
    for (std::size_t k = 0; k < size(n_); ++k) buffer_[k] = times(from[k], chirp_[k]);
    fft_.transform(buffer_.data(), other_.data());
    for (std::size_t k = 0; k < size(padded_); ++k) other_[k] = times(other_[k], filter_[k]);
    back_.transform(other_.data(), buffer_.data());
    for (std::size_t k = 0; k < size(n_); ++k) to[k] = times(buffer_[k], chirp_[k]);
  }

 private:
  static std::int64_t power_above(std::int64_t n) {
    std::int64_t power = 1;
    while (power < n) power *= 2;
    return power;
  }

  std::int64_t n_, padded_;
  kissfft<double> fft_, back_{1, false};
  Line chirp_, filter_, buffer_, other_;
};

/// The transform of one line of FftArgs, without its scale. A real line of even length n is transformed as n / 2
/// complex numbers.
class LineTransform {
 public:
  explicit LineTransform(const FftArgs& a)
      : kind_(a.kind),
        n_(a.n),
        interior_(a.interior),
        halved_(a.kind != FftKind::kComplex && a.n % 2 == 0),
        transform_(halved_ ? a.n / 2 : a.n, a.inverse),
        result_(size(halved_ ? a.n / 2 : a.n)) {
    if (!halved_) return;
    roots_.resize(size(n_ / 2));
    for (std::int64_t k = 0; k < n_ / 2; ++k) roots_[size(k)] = root(a.inverse ? k : -k, n_);
  }

  /// Returns the elements of the result. `line` has fft_inputs() elements (real ones have no imaginary part) and is
  /// overwritten.
  const Line& run(Line& line) {
    switch (kind_) {
      case FftKind::kComplex: transform_.run(line.data(), result_.data()); return result_;
      case FftKind::kFromReal: return from_real(line);
      case FftKind::kToReal: return to_real(line);
    }
    return result_;
  }

 private:
  bool is_interior(std::int64_t k) const { return k != 0 && 2 * k != n_; }

  const Line& from_real(Line& line) {
    const std::int64_t half = n_ / 2;
    if (halved_) {
      for (std::int64_t j = 0; j < half; ++j) line[size(j)] = {line[size(2 * j)].real(), line[size(2 * j + 1)].real()};
      transform_.run(line.data(), result_.data());
      line.resize(size(half + 1));
      for (std::int64_t k = 0; k <= half; ++k) {
        const Complex z = result_[size(k % half)], mirrored = std::conj(result_[size((half - k) % half)]);
        const Complex even = (z + mirrored) * 0.5, odd = times((z - mirrored) * 0.5, {0, -1});
        line[size(k)] = even + times(odd, k < half ? roots_[size(k)] : Complex(-1));
      }
    } else {
      transform_.run(line.data(), result_.data());
      line.assign(result_.begin(), result_.begin() + half + 1);
    }
    for (std::int64_t k = 0; k <= half; ++k)
      if (is_interior(k)) line[size(k)] *= interior_;
    return line;
  }

  /// Halves `interior_`, because the Hermitian extension of a half spectrum contains each interior element twice.
  const Line& to_real(Line& line) {
    const std::int64_t half = n_ / 2;
    for (std::int64_t k = 0; k <= half; ++k)
      line[size(k)] = is_interior(k) ? line[size(k)] * (interior_ / 2) : Complex(line[size(k)].real());
    if (!halved_) {
      line.resize(size(n_));
      for (std::int64_t k = half + 1; k < n_; ++k) line[size(k)] = std::conj(line[size(n_ - k)]);
      transform_.run(line.data(), result_.data());
      return result_;
    }
    packed_.resize(size(half));
    for (std::int64_t k = 0; k < half; ++k) {
      const Complex z = line[size(k)], mirrored = std::conj(line[size(half - k)]);
      packed_[size(k)] = z + mirrored + times(times(z - mirrored, roots_[size(k)]), {0, 1});
    }
    transform_.run(packed_.data(), result_.data());
    line.resize(size(n_));
    for (std::int64_t j = 0; j < half; ++j) {
      line[size(2 * j)] = result_[size(j)].real();
      line[size(2 * j + 1)] = result_[size(j)].imag();
    }
    return line;
  }

  FftKind kind_;
  std::int64_t n_;
  double interior_;
  bool halved_;
  Transform transform_;
  Line result_, packed_, roots_;
};

/// Reads and writes the lines of a tensor (outer, count, inner) of real or complex elements.
struct Lines {
  std::int64_t count, inner, parts;  // parts: 2 if elements are complex, else 1

  std::int64_t first(std::int64_t line) const { return (line / inner * count * inner + line % inner) * parts; }
  std::int64_t step() const { return inner * parts; }

  void read(In x, std::int64_t line, std::int64_t wanted, Line& to) const {
    to.assign(size(wanted), 0);
    double part[kWidened];
    for (std::int64_t p = 0; p < parts; ++p)
      for (std::int64_t j = 0; j < std::min(count, wanted); j += kWidened) {
        const std::int64_t n = std::min(kWidened, std::min(count, wanted) - j);
        widen_any(x.at(first(line) + p + j * step()), step(), part, n);
        for (std::int64_t i = 0; i < n; ++i) reinterpret_cast<double*>(&to[size(j + i)])[p] = part[i];
      }
  }

  template <class T>
  void write(T* y, std::int64_t line, const Line& from, std::int64_t computed, double scale) const {
    T* to = y + first(line);
    for (std::int64_t k = 0; k < count; ++k, to += step())
      for (std::int64_t p = 0; p < parts; ++p)
        to[p] = store_once<T>(k < computed ? scale * reinterpret_cast<const double*>(&from[size(k)])[p] : 0);
  }
};

}  // namespace

void run_fft(const FftArgs& a) {
  const std::int64_t lines = a.outer * a.inner, inputs = fft_inputs(a.kind, a.n), outputs = fft_outputs(a.kind, a.n);
  if (lines == 0 || a.y_count == 0) return;
  const Lines x{a.x_count, a.inner, a.kind == FftKind::kFromReal ? 1 : 2};
  const Lines y{a.y_count, a.inner, a.kind == FftKind::kToReal ? 1 : 2};
  const LineTransform prepared(a);
  parallel_for(lines, std::max<std::int64_t>(1, (1 << 14) / a.n), [&](std::int64_t begin, std::int64_t end) {
    LineTransform transform = prepared;
    Line line;
    for (std::int64_t l = begin; l < end; ++l) {
      x.read(a.x, l, inputs, line);
      const Line& result = transform.run(line);
      dispatch_float(a.y.dtype, "fft",
                     [&]<class T>(TypeTag<T>) { y.write(static_cast<T*>(a.y.data), l, result, outputs, a.scale); });
    }
  });
}

}  // namespace binade::cpu
