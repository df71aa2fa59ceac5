#include <algorithm>

#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/norm.h"
#include "binade/core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

/// Number of registers of channels that a loop over the rows of a block processes at a time.
constexpr int kSweep = 4;

/// One block of rows of one sample.
struct Block {
  std::int64_t sample, index, begin, end;  ///< begin and end count rows of the whole tensor
};

template <class F>
void each_block(const ColumnBlocks& s, F&& f) {
  const std::int64_t blocks = s.blocks();
  parallel_blocks(s.samples * blocks, [&](std::int64_t i) {
    const std::int64_t sample = i / blocks, index = i % blocks, first = sample * s.rows;
    f(Block{sample, index, first + index * s.rows_per_block, first + std::min(s.rows, (index + 1) * s.rows_per_block)});
  });
}

/// `n` registers of a per-channel vector, from column c on; zero if the vector is null.
template <class T, int n>
struct Channels {
  Wide<T> v[n];
  template <class P>
  Channels(const void* base, std::int64_t offset, P part) {
    for (int i = 0; i < n; ++i)
      v[i] = base == nullptr ? Wide<T>{} : get(static_cast<const Compute<T>*>(base) + offset + i * kWideLanes<T>, part);
  }
};

/// The vectors of a sample that every pass reads.
template <class T, int n>
struct SampleVectors {
  Channels<T, n> mean, scale, bias;
  template <class P>
  SampleVectors(const Columns& a, std::int64_t sample, std::int64_t c, P part)
      : mean(a.mean, sample * a.cols + c, part), scale(a.scale, sample * a.cols + c, part), bias(a.bias, c, part) {
    if (a.weight == nullptr) return;
    const Channels<T, n> weight(a.weight, c, part);
    for (int i = 0; i < n; ++i) scale.v[i] *= weight.v[i];
  }
};

template <class T>
void moments(const ColumnBlocks& a) {
  using C = Compute<T>;
  each_block(a, [&](const Block& block) {
    C* mean_out = static_cast<C*>(a.partial) + (block.sample * a.blocks() + block.index) * 2 * a.cols;
    C* squares_out = mean_out + a.cols;
    const C count = static_cast<C>(block.end - block.begin);
    each_sweep<T, kSweep>(a.cols, [&](std::int64_t c, auto n, auto part) {
      const T* x = static_cast<const T*>(a.x) + c;
      // Sums are relative to the block's first row, so that a large common offset costs no digits.
      Wide<T> origin[n], sum[n] = {}, squares[n] = {};
      for (int i = 0; i < n; ++i) origin[i] = get(x + block.begin * a.x_pitch + i * kWideLanes<T>, part);
      for (std::int64_t r = block.begin; r < block.end; ++r)
        for (int i = 0; i < n; ++i) sum[i] += get(x + r * a.x_pitch + i * kWideLanes<T>, part) - origin[i];
      for (int i = 0; i < n; ++i) sum[i] = origin[i] + sum[i] / splat(count);
      // The sum of the deviations would be 0 in exact arithmetic. It measures the rounding error of the mean, so the
      // mean and the squares are corrected by it.
      Wide<T> rest[n] = {};
      for (std::int64_t r = block.begin; r < block.end; ++r)
        for (int i = 0; i < n; ++i) {
          const Wide<T> d = get(x + r * a.x_pitch + i * kWideLanes<T>, part) - sum[i];
          rest[i] += d;
          squares[i] = multiply_add(d, d, squares[i]);
        }
      for (int i = 0; i < n; ++i) {
        const Wide<T> correction = rest[i] / splat(count);
        put(mean_out + c + i * kWideLanes<T>, sum[i] + correction, part);
        put(squares_out + c + i * kWideLanes<T>, squares[i] - rest[i] * correction, part);
      }
    });
  });
}

template <class T, bool relu, bool residual>
void apply_rows(const ColumnBlocks& a) {
  each_block(a, [&](const Block& block) {
    AmaxObserver amax(kDTypeOf<T>);
    each_sweep<T, kSweep>(a.cols, [&](std::int64_t c, auto n, auto part) {
      const SampleVectors<T, n> sample(a, block.sample, c, part);
      LoopAmaxObserver stored(amax);
      for (std::int64_t r = block.begin; r < block.end; ++r) {
        Wide<T> v[n];
        for (int i = 0; i < n; ++i) {
          const std::int64_t ci = c + i * kWideLanes<T>;
          v[i] = multiply_add(get(static_cast<const T*>(a.x) + r * a.x_pitch + ci, part) - sample.mean.v[i],
                              sample.scale.v[i], sample.bias.v[i]);
          if constexpr (residual) v[i] += get(static_cast<const T*>(a.residual) + r * a.residual_pitch + ci, part);
          if constexpr (relu)
            v[i] = v[i] <= Wide<T>{} ? Wide<T>{} : v[i];  // keeps NaN, for which the comparison is false
        }
        put_sweep(static_cast<T*>(a.out) + r * a.out_pitch + c, v, part, stored);
      }
    });
  });
}

/// The gradient gy after the ReLU's mask, and x - mean.
template <class T>
struct Masked {
  Wide<T> gy, centered;
};

/// The values from which the ReLU's mask is computed: none (no ReLU), y, or the recomputed input of the ReLU.
enum class Mask { kNone, kFromOutput, kRecomputed };

template <class T, Mask mask, int n, class P>
Masked<T> masked(const Columns& a, std::int64_t row, std::int64_t first, int i, const SampleVectors<T, n>& s, P part) {
  const std::int64_t c = first + i * kWideLanes<T>;
  Masked<T> m;
  m.centered = get(static_cast<const T*>(a.x) + row * a.x_pitch + c, part) - s.mean.v[i];
  m.gy = get(static_cast<const T*>(a.gy) + row * a.gy_pitch + c, part);
  if constexpr (mask == Mask::kFromOutput)
    m.gy = get(static_cast<const T*>(a.y) + row * a.y_pitch + c, part) <= Wide<T>{} ? Wide<T>{} : m.gy;
  if constexpr (mask == Mask::kRecomputed)
    m.gy = multiply_add(m.centered, s.scale.v[i], s.bias.v[i]) <= Wide<T>{} ? Wide<T>{} : m.gy;
  return m;
}

template <class T, Mask mask>
void gradient_sums(const ColumnBlocks& a) {
  using C = Compute<T>;
  each_block(a, [&](const Block& block) {
    C* sums = static_cast<C*>(a.partial) + (block.sample * a.blocks() + block.index) * 2 * a.cols;
    each_sweep<T, kSweep>(a.cols, [&](std::int64_t c, auto n, auto part) {
      const SampleVectors<T, n> sample(a, block.sample, c, part);
      Wide<T> sum[n] = {}, product[n] = {};
      for (std::int64_t r = block.begin; r < block.end; ++r)
        for (int i = 0; i < n; ++i) {
          const Masked<T> m = masked<T, mask>(a, r, c, i, sample, part);
          sum[i] += m.gy;
          product[i] = multiply_add(m.gy, m.centered, product[i]);
        }
      for (int i = 0; i < n; ++i) {
        put(sums + c + i * kWideLanes<T>, sum[i], part);
        put(sums + a.cols + c + i * kWideLanes<T>, product[i], part);
      }
    });
  });
}

template <class T, Mask mask>
void gradient_apply(const ColumnBlocks& a) {
  each_block(a, [&](const Block& block) {
    AmaxObserver amax(kDTypeOf<T>);
    each_sweep<T, kSweep>(a.cols, [&](std::int64_t c, auto n, auto part) {
      const SampleVectors<T, n> sample(a, block.sample, c, part);
      const std::int64_t at = block.sample * a.cols + c;
      const Channels<T, n> slope(a.slope, at, part), center(a.center, at, part), constant(a.constant, at, part);
      LoopAmaxObserver stored(amax);
      for (std::int64_t r = block.begin; r < block.end; ++r) {
        Wide<T> gx[n], gr[n];
        for (int i = 0; i < n; ++i) {
          const Masked<T> m = masked<T, mask>(a, r, c, i, sample, part);
          gx[i] = multiply_add(m.gy - center.v[i], sample.scale.v[i],
                               multiply_add(m.centered, slope.v[i], constant.v[i]));
          gr[i] = m.gy;
        }
        if (a.out != nullptr) put_sweep(static_cast<T*>(a.out) + r * a.out_pitch + c, gx, part, stored);
        if (a.gr != nullptr) put_sweep(static_cast<T*>(a.gr) + r * a.cols + c, gr, part, stored);
      }
    });
  });
}

/// Calls f with the kind of the ReLU's mask (none, from y, recomputed) as a compile-time constant.
template <class F>
void with_mask(const ColumnBlocks& a, F&& f) {
  if (!a.relu)
    f(std::integral_constant<Mask, Mask::kNone>{});
  else if (a.y != nullptr)
    f(std::integral_constant<Mask, Mask::kFromOutput>{});
  else
    f(std::integral_constant<Mask, Mask::kRecomputed>{});
}

void column_moments(const ColumnBlocks& a) {
  dispatch_float(a.dtype, "norm", [&]<class T>(TypeTag<T>) { moments<T>(a); });
}

void column_apply(const ColumnBlocks& a) {
  dispatch_float(a.dtype, "norm", [&]<class T>(TypeTag<T>) {
    if (a.residual != nullptr)
      a.relu ? apply_rows<T, true, true>(a) : apply_rows<T, false, true>(a);
    else
      a.relu ? apply_rows<T, true, false>(a) : apply_rows<T, false, false>(a);
  });
}

void column_gradient_sums(const ColumnBlocks& a) {
  dispatch_float(a.dtype, "norm",
                 [&]<class T>(TypeTag<T>) { with_mask(a, [&](auto mask) { gradient_sums<T, mask>(a); }); });
}

void column_gradient_apply(const ColumnBlocks& a) {
  dispatch_float(a.dtype, "norm",
                 [&]<class T>(TypeTag<T>) { with_mask(a, [&](auto mask) { gradient_apply<T, mask>(a); }); });
}

}  // namespace

const ColumnNormKernels& column_norm_kernels() {
  static constexpr ColumnNormKernels kernels{&column_moments, &column_apply, &column_gradient_sums,
                                             &column_gradient_apply};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
