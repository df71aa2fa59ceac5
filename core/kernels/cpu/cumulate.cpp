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
constexpr std::int64_t kColumns = 64;     // lines that are processed side by side

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

/// Position of step j of a line.
std::int64_t place(const CumulateArgs& a, std::int64_t j) { return a.reverse ? a.count - 1 - j : j; }

/// One contiguous line, in blocks: totals of the blocks, then each block from the total before it.
template <Cumulation how, class T, class S>
void cumulate_long_line(const CumulateArgs& a, const T* x, T* y) {
  const std::int64_t blocks = (a.count + kBlock - 1) / kBlock;
  std::vector<S> before(static_cast<std::size_t>(blocks), cumulation_start<how, S>());
  parallel_blocks(blocks - 1, [&](std::int64_t b) {
    S state = cumulation_start<how, S>();
    for (std::int64_t j = b * kBlock; j < (b + 1) * kBlock; ++j)
      state = cumulated<how>(state, term_of<S>(x[place(a, j)]));
    before[static_cast<std::size_t>(b) + 1] = state;
  });
  for (std::size_t b = 1; b < before.size(); ++b) before[b] = cumulated<how>(before[b - 1], before[b]);
  parallel_blocks(blocks, [&](std::int64_t b) {
    S state = before[static_cast<std::size_t>(b)];
    for (std::int64_t j = b * kBlock; j < std::min(a.count, (b + 1) * kBlock); ++j) {
      const std::int64_t at = place(a, j);
      state = cumulated<how>(state, term_of<S>(x[at]));
      y[at] = rounded_from<T>(state);
    }
  });
}

template <Cumulation how, class T, class S>
void cumulate_typed(const CumulateArgs& a) {
  const auto* x = static_cast<const T*>(a.x.data);
  auto* y = static_cast<T*>(a.y.data);
  if (a.inner == 1 && a.count > kBlock) {
    for (std::int64_t o = 0; o < a.outer; ++o) cumulate_long_line<how, T, S>(a, x + o * a.count, y + o * a.count);
    return;
  }
  for_each_lines(a.outer, a.count, a.inner, [&](std::int64_t o, std::int64_t first, std::int64_t n) {
    S state[kColumns];
    std::fill_n(state, n, cumulation_start<how, S>());
    for (std::int64_t j = 0; j < a.count; ++j) {
      const std::int64_t at = (o * a.count + place(a, j)) * a.inner + first;
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
    for (std::int64_t k = 0; k < n; ++k) {
      std::int64_t best = 0;
      const std::int64_t start = o * a.count * a.inner + first + k;
      for (std::int64_t j = 0; j < a.count; ++j) {
        if (replaces(a.largest, x[start + best * a.inner], x[start + j * a.inner])) best = j;
        a.index[start + j * a.inner] = best;
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
