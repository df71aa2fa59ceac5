#include <algorithm>
#include <cmath>
#include <type_traits>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/value.cuh"

/// Fourier transforms: lines are copied to a contiguous buffer, transformed by cuFFT, scaled and stored. Without
/// cuFFT, transform_directly() takes n^2 operations for a line.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// Numbers in each of the two buffers: lines are transformed in pieces of about this size, so that the workspace does
/// not grow with the tensor. A piece is enough work for all multiprocessors.
constexpr std::int64_t kPiece = std::int64_t{1} << 22;

/// The lines (slices along the middle dimension) of a tensor (outer, count, inner), from line `first` on, and their
/// copies in a buffer, with `length` elements each. An element has `parts` numbers.
struct FftLines {
  std::int64_t count, inner, length;
  int parts;
  std::int64_t first = 0;

  __device__ std::int64_t element(std::int64_t buffered, std::int64_t position) const {
    const std::int64_t line = first + buffered;
    return ((line / inner * count + position) * inner + line % inner) * parts;
  }
};

/// Returns w_k of FftArgs.
__device__ double weight_of(const FftArgs& a, std::int64_t k) {
  return a.kind == FftKind::kComplex || k == 0 || 2 * k == a.n ? 1 : a.interior;
}

/// Copies lines, padded with zeros, to the buffer. cuFFT counts the interior elements of a half spectrum twice.
template <class C>
__global__ void read_lines(FftArgs a, FftLines x, std::int64_t lines, C* buffer) {
  each_index(lines * x.length, [&](std::int64_t i) {
    const std::int64_t line = i / x.length, j = i - line * x.length;
    for (int p = 0; p < x.parts; ++p) {
      C value = j < x.count ? load_at<C>(a.x, x.element(line, j) + p) : C(0);
      if (a.kind == FftKind::kToReal) {
        const bool once = j == 0 || 2 * j == a.n;
        value = once && p == 1 ? C(0) : once ? value : value * static_cast<C>(a.interior / 2);
      }
      buffer[i * x.parts + p] = value;
    }
  });
}

template <class C>
__global__ void write_lines(FftArgs a, FftLines y, std::int64_t lines, const C* buffer) {
  each_index(lines * y.count, [&](std::int64_t i) {
    const std::int64_t line = i / y.count, k = i - line * y.count;
    const C scale = static_cast<C>(a.kind == FftKind::kFromReal ? a.scale * weight_of(a, k) : a.scale);
    for (int p = 0; p < y.parts; ++p)
      store_at(a.y.data, a.y.dtype, y.element(line, k) + p,
               k < y.length ? scale * buffer[(line * y.length + k) * y.parts + p] : C(0));
  });
}

/// Computes each element of a result as a sum in double.
template <class C>
__global__ void transform_directly(LibraryFft f) {
  const std::int64_t inputs = fft_inputs(f.kind, f.n), outputs = fft_outputs(f.kind, f.n);
  const auto* from = static_cast<const C*>(f.from);
  auto* to = static_cast<C*>(f.to);
  each_index(f.lines * outputs, [&](std::int64_t i) {
    const std::int64_t line = i / outputs, k = i - line * outputs;
    double real = 0, imaginary = 0;
    for (std::int64_t j = 0; j < inputs; ++j) {
      const double angle = 6.283185307179586 * (static_cast<double>(j * k % f.n) / static_cast<double>(f.n));
      const double c = cos(angle), s = f.inverse ? sin(angle) : -sin(angle);
      const std::int64_t at = line * inputs + j;
      const double re = f.kind == FftKind::kFromReal ? from[at] : from[2 * at];
      const double im = f.kind == FftKind::kFromReal ? 0 : from[2 * at + 1];
      const double times = f.kind == FftKind::kToReal && j != 0 && 2 * j != f.n ? 2 : 1;
      real += times * (re * c - im * s);
      imaginary += re * s + im * c;
    }
    if (f.kind == FftKind::kToReal) {
      to[i] = static_cast<C>(real);
    } else {
      to[2 * i] = static_cast<C>(real);
      to[2 * i + 1] = static_cast<C>(imaginary);
    }
  });
}

template <class C>
void run(const FftArgs& a) {
  const std::int64_t all = a.outer * a.inner;
  FftLines x{a.x_count, a.inner, fft_inputs(a.kind, a.n), a.kind == FftKind::kFromReal ? 1 : 2};
  FftLines y{a.y_count, a.inner, fft_outputs(a.kind, a.n), a.kind == FftKind::kToReal ? 1 : 2};
  const std::int64_t most = std::clamp<std::int64_t>(kPiece / (2 * a.n), 1, all);
  const Buffer<C> from(most * x.length * x.parts), to(most * y.length * y.parts);
  for (std::int64_t first = 0; first < all; first += most) {
    const std::int64_t lines = std::min(most, all - first);
    x.first = y.first = first;
    launch(read_lines<C>, grid_for(ceil_div(lines * x.length, kThreads)), kThreads, 0, a, x, lines, from.data());
    const LibraryFft f{a.kind, a.inverse, std::is_same_v<C, double>, a.n, lines, from.data(), to.data()};
    if (!library_fft(f)) launch(transform_directly<C>, grid_for(ceil_div(lines * y.length, kThreads)), kThreads, 0, f);
    launch(write_lines<C>, grid_for(ceil_div(lines * y.count, kThreads)), kThreads, 0, a, y, lines,
           static_cast<const C*>(to.data()));
  }
}

}  // namespace

void run_fft(const FftArgs& a) {
  if (a.outer * a.inner == 0 || a.y_count == 0) return;
  a.x.dtype == DType::f64 || a.y.dtype == DType::f64 ? run<double>(a) : run<float>(a);
}

}  // namespace binade::cuda
