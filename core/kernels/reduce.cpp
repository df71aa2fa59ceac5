#include "binade/core/kernels/reduce.h"

#include <limits>

#include "binade/core/kernels/chunk.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class C>
struct Adding {
  using Lanes = LaneSum<C>;
  static Lanes lanes() { return {}; }
  static constexpr C kStart = 0;
  static C combine(C a, C b) { return a + b; }
};

template <class C>
struct Largest {
  using Lanes = LaneMax<C>;
  static constexpr C kStart = -std::numeric_limits<C>::infinity();
  static Lanes lanes() { return Lanes(kStart); }
  static C combine(C a, C b) { return Lanes::larger(a, b); }
};

template <class R, class C>
void run_of(In x, std::int64_t n, void* result) {
  Reader<C> xs(x);
  typename R::Lanes lanes = R::lanes();
  for_chunks(n, [&](std::int64_t at, std::int64_t count) { lanes.add(xs.read(at, count), count); });
  *static_cast<C*>(result) = lanes.total();
}

template <class R, class C>
void combine_of(C* __restrict a, const C* __restrict b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] = R::combine(a[i], b[i]);
}

template <class R, class C>
void rows_of(In x, std::int64_t rows, std::int64_t pitch, std::int64_t cols, C* result) {
  for (std::int64_t c = 0; c < cols; ++c) result[c] = R::kStart;
  Reader<C> xs(x);
  for (std::int64_t r = 0; r < rows; ++r)
    for_chunks(cols, [&](std::int64_t at, std::int64_t count) {
      combine_of<R, C>(result + at, xs.read(r * pitch + at, count), count);
    });
}

/// Few columns would leave vector lanes empty, so several rows are combined into one long row.
template <class R, class C>
void narrow_rows_of(In x, std::int64_t rows, std::int64_t cols, C* result) {
  constexpr std::int64_t kWide = 64;
  const std::int64_t rows_at_once = kWide / cols;
  C wide[kWide];
  rows_of<R, C>(x, rows / rows_at_once, rows_at_once * cols, rows_at_once * cols, wide);
  rows_of<R, C>(x.at(rows / rows_at_once * rows_at_once * cols), rows % rows_at_once, cols, cols, result);
  for (std::int64_t r = 0; r < rows_at_once; ++r) combine_of<R, C>(result, wide + r * cols, cols);
}

template <class R, class C>
void reduce_rows(In x, std::int64_t rows, std::int64_t pitch, std::int64_t cols, void* results) {
  C* const result = static_cast<C*>(results);
  if (pitch == cols && cols <= 32)
    narrow_rows_of<R, C>(x, rows, cols, result);
  else
    rows_of<R, C>(x, rows, pitch, cols, result);
}

template <template <class> class R>
constexpr ReduceLoops loops() {
  return {&call_for_dtype<run_of<R<double>, double>, run_of<R<float>, float>>,
          &call_for_dtype<reduce_rows<R<double>, double>, reduce_rows<R<float>, float>>,
          [](void* a, const void* b, std::int64_t n, bool is_double) {
            if (is_double)
              combine_of<R<double>, double>(static_cast<double*>(a), static_cast<const double*>(b), n);
            else
              combine_of<R<float>, float>(static_cast<float*>(a), static_cast<const float*>(b), n);
          }};
}

template <class C>
void max_gradient_of(In x, In y, std::int64_t y_step, In g, std::int64_t g_step, Out gx, std::int64_t n) {
  Reader<C> xs(x), ys(y, y_step, n), gs(g, g_step, n);
  Writer<C> gxs(gx);
  map_elements(
      n, gxs,
      [](C from_x, C from_y, C from_g) {
        const bool both_nan = from_x != from_x && from_y != from_y;
        return from_x == from_y || both_nan ? from_g : C(0);
      },
      xs, ys, gs);
}

}  // namespace

const ReductionKernels& reduction_kernels() {
  static constexpr ReductionKernels kernels{loops<Adding>(), loops<Largest>(),
                                            &call_for_dtype<max_gradient_of<double>, max_gradient_of<float>>};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
