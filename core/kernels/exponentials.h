#pragma once

#include <cstdint>
#include <limits>

#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/vector_math.h"
#include "binade/core/math.h"

/// Computes exponentials of rows, for softmax and cross entropy. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// Returns exp(x) of each lane.
inline Vector<double> exp(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = math::exp(x[i]);
  return x;
}

/// Computes the maximum of a row; -inf if the row is empty. A NaN is not taken as the maximum; later its exponential
/// makes the sum NaN.
template <class C>
class RowMax {
 public:
  void add(const C* x, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + kChains * kLanes<C> <= n; i += kChains * kLanes<C>)
      for (int v = 0; v < kChains; ++v) best_[v] = larger(load_vector<C>(x + i + v * kLanes<C>), best_[v]);
    each_group<C>(n - i, [&](std::int64_t at, auto part) {
      best_[0] = larger(keep(get(x + i + at, part), part, kLowest), best_[0]);
    });
  }
  C total() const {
    return fold_lanes(larger(larger(best_[0], best_[1]), larger(best_[2], best_[3])),
                      [](const auto& a, const auto& b) { return larger(a, b); });
  }

 private:
  static constexpr int kChains = 4;  // number of independent partial results
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();
  static constexpr C kNothing = -std::numeric_limits<C>::infinity();

  Vector<C> best_[kChains] = {splat(kNothing), splat(kNothing), splat(kNothing), splat(kNothing)};
};

/// Calls keep_it(column, exp(x - offset), Full{} or Part{}) over n values of a row, at most kChunk per call of add(),
/// and sums the exponentials in four independent sums per call.
template <class C>
class ExponentialSum {
 public:
  template <class F>
  [[gnu::always_inline]] void add(const C* x, C offset, std::int64_t n, F&& keep_it) {
    const Vector<C> origin = splat(offset);
    sums_ += sum_of_groups<C>(
        n, [&](const Vector<C>& so_far, std::int64_t i, auto part) __attribute__((always_inline)) {
          const Vector<C> e = exp(get(x + i, part) - origin);
          keep_it(i, e, part);
          return so_far + keep(e, part);
        });
  }
  C total() const { return sum_lanes(sums_); }

 private:
  Vector<C> sums_{};
};

/// Returns exp(x) of one value, with the same bits as exp() of a vector that contains x.
inline float exp_of(float x) { return exp(splat(x))[0]; }
inline double exp_of(double x) { return math::exp(x); }

}  // namespace binade::cpu::BINADE_ISA
