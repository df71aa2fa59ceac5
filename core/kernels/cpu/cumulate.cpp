#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cumulation.h"
#include "binade/core/kernels/order_key.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // elements
constexpr std::int64_t kBlock = 1 << 15;  // elements of a line that are added one after the other
constexpr std::int64_t kColumns = 64;     // interleaved lines (inner > 1) that are processed together
constexpr std::int64_t kTogether = 4;     // contiguous lines (inner = 1) that are processed together

/// Calls body(o, first column, number of columns) for all lines, in parallel.
template <class F>
void for_each_lines(std::int64_t outer, std::int64_t count, std::int64_t inner, F&& body) {
  const std::int64_t chunks = (inner + kColumns - 1) / kColumns, work = count * std::min(inner, kColumns);
  parallel_for(outer * chunks, std::max<std::int64_t>(1, kGrain / work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = c % chunks * kColumns;
      body(c / chunks, first, std::min(kColumns, inner - first));
    }
  });
}

/// A line, or a part of one: `count` elements that begin at x and y.
template <class T>
struct Line {
  const T* x = nullptr;
  T* y = nullptr;  ///< null: only the total is wanted
  std::int64_t count = 0;
};

/// Adds the elements [begin, end) of `n` lines to `state`, alternating between the lines, because within a line each
/// addition waits for the previous one.
template <Cumulation how, int n, class T, class S>
void cumulate_together(const Line<T>* lines, std::int64_t begin, std::int64_t end, std::int64_t step, S* state) {
  const T* x[n];
  T* y[n];
  S total[n];
  for (int i = 0; i < n; ++i) x[i] = lines[i].x, y[i] = lines[i].y, total[i] = state[i];
  const auto run = [&](auto stored) {
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t at = j * step;
#pragma GCC unroll 4
      for (int i = 0; i < n; ++i) {
        total[i] = cumulated<how>(total[i], term_of<S>(x[i][at]));
        if constexpr (stored) y[i][at] = rounded_from<T>(total[i]);
      }
    }
  };
  y[0] != nullptr ? run(std::true_type{}) : run(std::false_type{});
  for (int i = 0; i < n; ++i) state[i] = total[i];
}

/// Cumulates up to kTogether lines, each of which continues from its `state`. Either all lines have a y or none has.
template <Cumulation how, class T, class S>
void cumulate_lines(const Line<T>* lines, std::int64_t n, std::int64_t step, S* state) {
  std::int64_t common = 0;
  if (n == kTogether) {
    common = lines[0].count;
    for (std::int64_t i = 1; i < n; ++i) common = std::min(common, lines[i].count);
    cumulate_together<how, kTogether>(lines, 0, common, step, state);
  }
  for (std::int64_t i = 0; i < n; ++i)
    if (common < lines[i].count) cumulate_together<how, 1>(lines + i, common, lines[i].count, step, state + i);
}

/// Cumulates contiguous lines. A long line is cut into blocks: the first pass computes the total of each block, the
/// second pass cumulates each block, starting from the total of all blocks before it.
template <Cumulation how, class T, class S>
void cumulate_contiguous(const CumulateArgs& a) {
  const std::int64_t blocks = (a.count + kBlock - 1) / kBlock, all = a.outer * blocks, step = a.reverse ? -1 : 1;
  std::vector<S> before(static_cast<std::size_t>(blocks == 1 ? 0 : all), cumulation_start<how, S>());
  const auto pass = [&](bool store, auto&& starts_from, auto&& done) {
    const std::int64_t grain = std::max<std::int64_t>(kGrain / std::min(kBlock, a.count),
                                                      std::clamp<std::int64_t>(all / num_threads(), 1, kTogether));
    parallel_for(all, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; b += kTogether) {
        const std::int64_t n = std::min(kTogether, last - b);
        Line<T> lines[kTogether];
        S state[kTogether];
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t begin = (b + i) % blocks * kBlock;
          const std::int64_t at = (b + i) / blocks * a.count + (a.reverse ? a.count - 1 - begin : begin);
          lines[i] = {static_cast<const T*>(a.x.data) + at, store ? static_cast<T*>(a.y.data) + at : nullptr,
                      std::min(kBlock, a.count - begin)};
          state[i] = starts_from(b + i);
        }
        cumulate_lines<how>(lines, n, step, state);
        for (std::int64_t i = 0; i < n; ++i) done(b + i, state[i]);
      }
    });
  };
  if (blocks > 1) {
    std::vector<S> totals(before.size());
    pass(
        false, [](std::int64_t) { return cumulation_start<how, S>(); },
        [&](std::int64_t b, S total) { totals[static_cast<std::size_t>(b)] = total; });
    for (std::int64_t b = 0; b < all; ++b)
      if (b % blocks > 0)
        before[static_cast<std::size_t>(b)] = cumulated<how>(before[static_cast<std::size_t>(b) - 1],
                                                             totals[static_cast<std::size_t>(b) - 1]);
  }
  pass(
      true,
      [&](std::int64_t b) { return blocks > 1 ? before[static_cast<std::size_t>(b)] : cumulation_start<how, S>(); },
      [](std::int64_t, S) {});
}

template <Cumulation how, class T, class S>
void cumulate_typed(const CumulateArgs& a) {
  if (a.inner == 1) return cumulate_contiguous<how, T, S>(a);
  const auto* x = static_cast<const T*>(a.x.data);
  auto* y = static_cast<T*>(a.y.data);
  for_each_lines(a.outer, a.count, a.inner, [&](std::int64_t o, std::int64_t first, std::int64_t n) {
    S state[kColumns];
    std::fill_n(state, n, cumulation_start<how, S>());
    for (std::int64_t j = 0; j < a.count; ++j) {
      const std::int64_t at = (o * a.count + (a.reverse ? a.count - 1 - j : j)) * a.inner + first;
      for (std::int64_t k = 0; k < n; ++k) {
        state[k] = cumulated<how>(state[k], term_of<S>(x[at + k]));
        y[at + k] = rounded_from<T>(state[k]);
      }
    }
  });
}

template <class T>
void extreme_typed(const CumulativeExtremeArgs& a) {
  const auto* x = static_cast<const T*>(a.x.data);
  for_each_lines(a.outer, a.count, a.inner, [&](std::int64_t o, std::int64_t first, std::int64_t n) {
    T best[kColumns];
    std::int64_t position[kColumns] = {};
    const std::int64_t start = o * a.count * a.inner + first;
    std::copy_n(x + start, n, best);
    for (std::int64_t j = 0; j < a.count; ++j) {
      const std::int64_t at = start + j * a.inner;
      for (std::int64_t k = 0; k < n; ++k) {
        if (replaces(a.largest, best[k], x[at + k])) {
          best[k] = x[at + k];
          position[k] = j;
        }
        a.index[at + k] = position[k];
      }
    }
  });
}

}  // namespace

void run_cumulate(const CumulateArgs& a) {
  if (a.outer * a.count * a.inner == 0) return;
  if (a.x.dtype == DType::i64) {
    if (a.how == Cumulation::kSum) return cumulate_typed<Cumulation::kSum, std::int64_t, std::int64_t>(a);
    return cumulate_typed<Cumulation::kProduct, std::int64_t, std::int64_t>(a);
  }
  dispatch_float(a.x.dtype, "cumulate", [&]<class T>(TypeTag<T>) {
    switch (a.how) {
      case Cumulation::kSum: return cumulate_typed<Cumulation::kSum, T, double>(a);
      case Cumulation::kProduct: return cumulate_typed<Cumulation::kProduct, T, double>(a);
      case Cumulation::kLogSumExp: return cumulate_typed<Cumulation::kLogSumExp, T, double>(a);
    }
  });
}

void run_cumulate_gradient(const CumulateGradientArgs& a) {
  if (a.outer * a.count * a.inner == 0) return;
  dispatch_float(a.x.dtype, "cumulate", [&]<class T>(TypeTag<T>) {
    for_each_lines(a.outer, a.count, a.inner, [&](std::int64_t o, std::int64_t first, std::int64_t n) {
      for (std::int64_t k = 0; k < n; ++k)
        cumulate_gradient_line(a.how, static_cast<const T*>(a.x.data), static_cast<const T*>(a.y.data),
                               static_cast<const T*>(a.gy.data), static_cast<T*>(a.gx.data),
                               o * a.count * a.inner + first + k, a.count, a.inner);
    });
  });
}

void run_cumulative_extreme(const CumulativeExtremeArgs& a) {
  if (a.outer * a.count * a.inner == 0) return;
  if (!with_ordered(a.x.dtype, [&]<class T>(T) { extreme_typed<T>(a); })) throw_not_floating(a.x.dtype, "cummax");
}

}  // namespace binade::cpu
