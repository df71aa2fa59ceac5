#include "binade/core/kernels/cumulation.h"
#include "binade/core/kernels/order_key.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Cumulative sums, products and extremes. One thread computes a line, or one block a long contiguous line. The order
/// of operations depends on the shape alone.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256, kEach = 4, kTile = kThreads * kEach;
constexpr std::int64_t kLong = 64;  // a block computes a contiguous line of at least this many elements

/// The lines of a tensor (outer, count, inner): its one-dimensional slices along the middle dimension.
struct Lines {
  std::int64_t outer, count, inner;
  __device__ std::int64_t start(std::int64_t line) const {
    const std::int64_t o = line / inner;
    return o * count * inner + (line - o * inner);
  }
};

template <Cumulation how, class T, class S>
struct Totals {
  using State = S;
  const T* x;
  T* y;
  bool reverse;
  __device__ State none() const { return cumulation_start<how, S>(); }
  __device__ State term(std::int64_t at, std::int64_t) const { return term_of<S>(x[at]); }
  __device__ State combine(const State& a, const State& b) const { return cumulated<how>(a, b); }
  __device__ void store(std::int64_t at, const State& s) const { y[at] = rounded_from<T>(s); }
};

template <class T>
struct Best {
  T value;
  std::int64_t position;  // -1: none
};

template <class T>
struct Extremes {
  using State = Best<T>;
  const T* x;
  std::int64_t* index;
  bool largest;
  static constexpr bool reverse = false;
  __device__ State none() const { return {T(0), -1}; }
  __device__ State term(std::int64_t at, std::int64_t j) const { return {x[at], j}; }
  __device__ State combine(const State& a, const State& b) const {
    if (a.position < 0 || b.position < 0) return a.position < 0 ? b : a;
    return replaces(largest, a.value, b.value) ? b : a;
  }
  __device__ void store(std::int64_t at, const State& s) const { index[at] = s.position; }
};

template <class F>
__global__ void thread_per_line(F f, Lines lines) {
  each_index(lines.outer * lines.inner, [&](std::int64_t line) {
    const std::int64_t start = lines.start(line);
    typename F::State state = f.none();
    for (std::int64_t step = 0; step < lines.count; ++step) {
      const std::int64_t j = f.reverse ? lines.count - 1 - step : step, at = start + j * lines.inner;
      state = f.combine(state, f.term(at, j));
      f.store(at, state);
    }
  });
}

/// Computes a line tile by tile: each thread combines kEach elements, then the block combines the threads' totals.
template <class F>
__global__ void __launch_bounds__(kThreads) block_per_line(F f, Lines lines) {
  using State = typename F::State;
  __shared__ State totals[2][kThreads];
  const int t = static_cast<int>(threadIdx.x);
  for (std::int64_t line = blockIdx.x; line < lines.outer; line += gridDim.x) {
    State before = f.none();
    for (std::int64_t tile = 0; tile < lines.count; tile += kTile) {
      const auto place = [&](int e) {
        const std::int64_t step = tile + t * kEach + e;
        return f.reverse ? lines.count - 1 - step : step;
      };
      State total = f.none();
      for (int e = 0; e < kEach; ++e)
        if (tile + t * kEach + e < lines.count)
          total = f.combine(total, f.term(line * lines.count + place(e), place(e)));
      int turn = 0;
      totals[0][t] = total;
      __syncthreads();
      for (int apart = 1; apart < kThreads; apart *= 2) {
        totals[1 - turn][t] = t >= apart ? f.combine(totals[turn][t - apart], totals[turn][t]) : totals[turn][t];
        turn = 1 - turn;
        __syncthreads();
      }
      State state = t > 0 ? f.combine(before, totals[turn][t - 1]) : before;
      for (int e = 0; e < kEach; ++e) {
        if (tile + t * kEach + e >= lines.count) break;
        const std::int64_t at = line * lines.count + place(e);
        state = f.combine(state, f.term(at, place(e)));
        f.store(at, state);
      }
      before = f.combine(before, totals[turn][kThreads - 1]);
      __syncthreads();
    }
  }
}

template <class F>
void run_lines(const F& f, const Lines& lines) {
  if (lines.inner == 1 && lines.count >= kLong)
    launch(block_per_line<F>, grid_for(lines.outer), kThreads, 0, f, lines);
  else
    launch(thread_per_line<F>, grid_for(ceil_div(lines.outer * lines.inner, kThreads)), kThreads, 0, f, lines);
}

template <class T, class S>
void run_totals(const CumulateArgs& a) {
  const Lines lines{a.outer, a.count, a.inner};
  const auto run = [&]<Cumulation how>() {
    run_lines(Totals<how, T, S>{static_cast<const T*>(a.x.data), static_cast<T*>(a.y.data), a.reverse}, lines);
  };
  if (a.how == Cumulation::kSum) return run.template operator()<Cumulation::kSum>();
  if (a.how == Cumulation::kProduct) return run.template operator()<Cumulation::kProduct>();
  if constexpr (!std::is_integral_v<T>) run.template operator()<Cumulation::kLogSumExp>();
}

template <class T>
__global__ void line_gradients(CumulateGradientArgs a, Lines lines) {
  each_index(lines.outer * lines.inner, [&](std::int64_t line) {
    cumulate_gradient_line(a.how, static_cast<const T*>(a.x.data), static_cast<const T*>(a.y.data),
                           static_cast<const T*>(a.gy.data), static_cast<T*>(a.gx.data), lines.start(line), lines.count,
                           lines.inner);
  });
}

}  // namespace

void run_cumulate(const CumulateArgs& a) {
  if (a.outer * a.count * a.inner == 0) return;
  switch (a.x.dtype) {
    case DType::f32: return run_totals<float, double>(a);
    case DType::f16: return run_totals<float16, double>(a);
    case DType::bf16: return run_totals<bfloat16, double>(a);
    case DType::f64: return run_totals<double, double>(a);
    case DType::i64: return run_totals<std::int64_t, std::int64_t>(a);
    default: throw Failure(Status::kUnsupported, "a cumulative op of this dtype");
  }
}

void run_cumulate_gradient(const CumulateGradientArgs& a) {
  const Lines lines{a.outer, a.count, a.inner};
  if (lines.outer * lines.count * lines.inner == 0) return;
  const unsigned grid = grid_for(ceil_div(lines.outer * lines.inner, kThreads));
  switch (a.x.dtype) {
    case DType::f32: return launch(line_gradients<float>, grid, kThreads, 0, a, lines);
    case DType::f16: return launch(line_gradients<float16>, grid, kThreads, 0, a, lines);
    case DType::bf16: return launch(line_gradients<bfloat16>, grid, kThreads, 0, a, lines);
    case DType::f64: return launch(line_gradients<double>, grid, kThreads, 0, a, lines);
    default: throw Failure(Status::kUnsupported, "a cumulative op of this dtype");
  }
}

void run_cumulative_extreme(const CumulativeExtremeArgs& a) {
  if (a.outer * a.count * a.inner == 0) return;
  const bool known = with_ordered(a.x.dtype, [&]<class T>(T) {
    run_lines(Extremes<T>{static_cast<const T*>(a.x.data), a.index, a.largest}, Lines{a.outer, a.count, a.inner});
  });
  if (!known) throw Failure(Status::kUnsupported, "cummax of this dtype");
}

}  // namespace binade::cuda
