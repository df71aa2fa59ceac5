#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/norm.h"
#include "binade/core/kernels/scratch.h"
#include "binade/core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

/// Returns the number of rows per task, which depends on the size of a row only.
std::int64_t row_grain(std::int64_t cols) { return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols)); }

template <class T>
Compute<T> average(const T* h, std::int64_t cols) {
  const Wide<T> sum = sum_of_groups<T>(cols, [&](const Wide<T>& so_far, std::int64_t c, auto part) {
    return so_far + get(h + c, part);
  });
  return sum_lanes(sum) / static_cast<Compute<T>>(cols);
}

template <class T>
Compute<T> average_square(const T* h, std::int64_t cols, Compute<T> mean) {
  const Wide<T> center = splat(mean);
  const Wide<T> squares = sum_of_groups<T>(cols, [&](const Wide<T>& so_far, std::int64_t c, auto part) {
    const Wide<T> d = keep(get(h + c, part) - center, part);
    return multiply_add(d, d, so_far);
  });
  return sum_lanes(squares) / static_cast<Compute<T>>(cols);
}

/// The statistics of a row h, which is stored in `row`: y = (h - mean) rstd.
template <class T>
struct RowStatistics {
  const T* row;
  Compute<T> mean, rstd;
  Compute<T> unit = 1;    ///< power of two by which `row` was scaled
  bool constant = false;  ///< the row was scaled and is constant: every h is the mean, and rstd = 1 / sqrt(eps)
};

/// Returns the statistics of a row whose squares overflow or underflow in C, computed from the row times a power of
/// two. The scaling is exact except for elements that are negligible compared with the largest. Squares overflow for
/// deviations above 2^60 (in f32) and underflow for deviations below 2^-50; the scaled values avoid both. NaN and
/// infinities stay unchanged.
template <class T>
[[gnu::noinline]] RowStatistics<T> statistics_in_unit(const T* h, std::int64_t cols, bool rms, Compute<T> eps,
                                                      bool large) {
  using C = Compute<T>;
  constexpr int kShift = std::numeric_limits<C>::max_exponent - 28;
  const C unit = std::ldexp(C{1}, large ? -kShift : kShift);
  T* row = scratch_of<T>(ScratchSlot::kShared, static_cast<std::size_t>(cols));
  for (std::int64_t c = 0; c < cols; ++c) row[c] = store<T>(load(h[c]) * unit);
  C mean = 0;
  if (!rms) {
    mean = average(row, cols);
    // In a constant row the deviations must be exactly 0: the scaled eps is too small to hide a rounding error.
    const Wide<T> center = splat(mean);
    const Wide<T> rest = sum_of_groups<T>(cols, [&](const Wide<T>& so_far, std::int64_t c, auto part) {
      return so_far + keep(get(row + c, part) - center, part);
    });
    mean += sum_lanes(rest) / static_cast<C>(cols);
  }
  const C variance = average_square(row, cols, mean);
  if (variance == 0) return {row, mean, C{1} / std::sqrt(eps), unit, true};
  return {row, mean, C{1} / std::sqrt(variance + eps * unit * unit), unit};
}

template <class T>
RowStatistics<T> row_statistics(const T* h, std::int64_t cols, bool rms, double given_eps) {
  using C = Compute<T>;
  const C eps = static_cast<C>(given_eps), mean = rms ? C{0} : average(h, cols);
  const C variance = average_square(h, cols, mean);
  const bool large = !(variance <= std::numeric_limits<C>::max());
  const bool small = variance + eps < std::numeric_limits<C>::min() * C(0x1p26);
  if (large || small) [[unlikely]]
    return statistics_in_unit(h, cols, rms, eps, large);
  return {h, mean, C{1} / std::sqrt(variance + eps)};
}

/// Prefetches the next row. The current row is in the L1 cache by then, so memory would otherwise be idle.
template <class T>
[[gnu::always_inline]] inline void prefetch_next(const T* row, std::int64_t pitch, std::int64_t column) {
  if (row != nullptr) prefetch_line(row, (pitch + column) * static_cast<std::int64_t>(sizeof(T)));
}

template <class T>
void forward_row(const RowNormForward& a, std::int64_t row, AmaxObserver& amax) {
  using C = Compute<T>;
  const T* x = static_cast<const T*>(a.x) + row * a.x_pitch;
  const T* r = a.residual == nullptr ? nullptr : static_cast<const T*>(a.residual) + row * a.residual_pitch;
  const T* h = x;
  if (r != nullptr) {
    T* sum = static_cast<T*>(a.h) + row * a.cols;
    put_row(sum, a.cols, amax, [&](std::int64_t c, auto part) { return get(x + c, part) + get(r + c, part); });
    h = sum;  // normalizes the rounded sum, as if add and norm were two ops
  }
  const RowStatistics<T> s = row_statistics(h, a.cols, a.rms, a.eps);
  if (a.mean != nullptr) static_cast<C*>(a.mean)[row] = s.mean / s.unit;
  if (a.rstd != nullptr) static_cast<C*>(a.rstd)[row] = s.constant ? s.rstd : s.rstd * s.unit;
  const auto* w = static_cast<const C*>(a.weight);
  const auto* b = static_cast<const C*>(a.bias);
  T* y = static_cast<T*>(a.y) + row * a.cols;
  const T* of = s.row;
  const Wide<T> center = splat(s.mean), factor = splat(s.rstd);
  put_row(y, a.cols, amax, [&](std::int64_t c, auto part) {
    prefetch_next(x, a.x_pitch, c);
    prefetch_next(r, a.residual_pitch, c);
    const Wide<T> v = (get(of + c, part) - center) * factor;
    if (w != nullptr && b != nullptr) return multiply_add(v, get(w + c, part), get(b + c, part));
    if (w != nullptr) return v * get(w + c, part);
    return b != nullptr ? v + get(b + c, part) : v;
  });
}

template <class T>
void backward_row(const RowNormBackward& a, std::int64_t row, Compute<T>* gw, Compute<T>* gb, AmaxObserver& amax) {
  using C = Compute<T>;
  const T* h = static_cast<const T*>(a.h) + row * a.h_pitch;
  const T* gy = static_cast<const T*>(a.gy) + row * a.cols;
  const T* gh = a.gh != nullptr ? static_cast<const T*>(a.gh) + row * a.cols : nullptr;
  T* gx = a.gx != nullptr ? static_cast<T*>(a.gx) + row * a.cols : nullptr;
  const auto* w = static_cast<const C*>(a.weight);
  const C rstd = static_cast<const C*>(a.rstd)[row];
  const Wide<T> center = splat(a.mean != nullptr ? static_cast<const C*>(a.mean)[row] : C{0}), factor = splat(rstd);

  Wide<T> sum_g{}, sum_gx{};
  each_group<T>(a.cols, [&](std::int64_t c, auto part) {
    const Wide<T> dy = get(gy + c, part);
    const Wide<T> xhat = keep((get(h + c, part) - center) * factor, part);
    const Wide<T> g = w != nullptr ? dy * get(w + c, part) : dy;
    sum_g += g;
    sum_gx = multiply_add(g, xhat, sum_gx);
    if (gw != nullptr) {
      put(gw + c, multiply_add(dy, xhat, get(gw + c, part)), part);
      put(gb + c, get(gb + c, part) + dy, part);
    }
  });
  if (gx == nullptr) return;
  const C cols = static_cast<C>(a.cols);
  const Wide<T> mean_g = splat(a.rms ? C{0} : sum_lanes(sum_g) / cols), mean_gx = splat(sum_lanes(sum_gx) / cols);
  put_row(gx, a.cols, amax, [&](std::int64_t c, auto part) {
    prefetch_next(h, a.h_pitch, c);
    prefetch_next(gy, a.cols, c);
    prefetch_next(gh, a.cols, c);
    const Wide<T> dy = get(gy + c, part), xhat = (get(h + c, part) - center) * factor;
    // The product is rounded as it was for the mean of g: with one column, g - mean_g must be exactly 0.
    const Wide<T> g = w != nullptr ? uncontracted(dy * get(w + c, part)) : dy;
    const Wide<T> v = (g - mean_g - xhat * mean_gx) * factor;
    return gh != nullptr ? v + get(gh + c, part) : v;
  });
}

/// Adds the blocks' parts in block order; `part` 0 is gw, 1 is gb.
template <class C>
void combine(const RowNormBackward& a, int part, void* to) {
  if (to == nullptr) return;
  const C* parts = static_cast<const C*>(a.partial) + part * a.cols;
  each_group<C>(a.cols, [&](std::int64_t c, auto lanes) {
    Wide<C> sum{};
    for (std::int64_t block = 0; block < a.blocks(); ++block) sum += get(parts + block * 2 * a.cols + c, lanes);
    put(static_cast<C*>(to) + c, sum, lanes);
  });
}

void row_norm_forward(const RowNormForward& a) {
  dispatch_float(a.dtype, "norm", [&]<class T>(TypeTag<T>) {
    parallel_for(a.rows, row_grain(a.cols), [&](std::int64_t begin, std::int64_t end) {
      AmaxObserver amax(kDTypeOf<T>);
      for (std::int64_t row = begin; row < end; ++row) forward_row<T>(a, row, amax);
    });
  });
}

void row_norm_backward(const RowNormBackward& a) {
  dispatch_float(a.dtype, "norm", [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    parallel_blocks(a.blocks(), [&](std::int64_t block) {
      C* gw = a.partial != nullptr ? static_cast<C*>(a.partial) + block * 2 * a.cols : nullptr;
      if (gw != nullptr) std::fill_n(gw, 2 * a.cols, C{0});
      AmaxObserver amax(kDTypeOf<T>);
      const std::int64_t end = std::min(a.rows, (block + 1) * a.rows_per_block);
      for (std::int64_t row = block * a.rows_per_block; row < end; ++row)
        backward_row<T>(a, row, gw, gw != nullptr ? gw + a.cols : nullptr, amax);
    });
    combine<C>(a, 0, a.gw);
    combine<C>(a, 1, a.gb);
  });
}

}  // namespace

const RowNormKernels& row_norm_kernels() {
  static constexpr RowNormKernels kernels{&row_norm_forward, &row_norm_backward};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
