#include <algorithm>
#include <span>
#include <vector>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/widened.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kTask = 1 << 14;  // least number of multiply-adds of a task
constexpr std::int64_t kColumns = 128;   // columns that are summed together

std::int64_t grain(std::int64_t work) { return std::max<std::int64_t>(1, kTask / std::max<std::int64_t>(1, work)); }

/// Calls f with the type of the elements. Sums and weights are double for f64, otherwise float.
template <class F>
void with_types(DType elements, F&& f) {
  dispatch_float(elements, "sampling", std::forward<F>(f));
}

/// Weights as numbers of type C: those of the tensor if it has this type, otherwise a converted copy.
template <class C>
class Weights {
 public:
  Weights(In x, std::int64_t count) {
    if (x.dtype == kDTypeOf<C>) {
      values_ = static_cast<const C*>(x.data);
      return;
    }
    copy_.resize(static_cast<std::size_t>(count));
    parallel_for(count, kTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kWidened)
        widen_any(x.at(i), 1, copy_.data() + i, std::min(kWidened, end - i));
    });
    values_ = copy_.data();
  }
  C operator[](std::int64_t i) const { return values_[i]; }

 private:
  std::vector<C> copy_{};
  const C* values_ = nullptr;
};

/// The taps of each batch, sorted by row of the table and, within a row, by point and tap. taps_of(b, r) returns the
/// taps of row r in batch b.
class SortedTaps {
 public:
  explicit SortedTaps(const TapSums& s)
      : rows_(s.rows),
        each_(s.points * s.taps),
        begin_(static_cast<std::size_t>(s.batches * (s.rows + 2)), 0),
        taps_(static_cast<std::size_t>(s.batches * each_)) {
    parallel_for(s.batches, grain(each_ + s.rows), [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t batch = first; batch < end; ++batch) sort(s, batch);
    });
  }

  std::span<const std::int64_t> taps_of(std::int64_t batch, std::int64_t row) const {
    const std::int64_t* begin = begin_.data() + batch * (rows_ + 2) + row;
    return {taps_.data() + batch * each_ + begin[0], static_cast<std::size_t>(begin[1] - begin[0])};
  }

 private:
  /// A counting sort: counts the taps of each row, computes where each row begins, and stores each tap at the next free
  /// place of its row. At the end, next[row] is where row + 1 begins.
  void sort(const TapSums& s, std::int64_t batch) {
    std::int64_t* next = begin_.data() + batch * (rows_ + 2) + 1;
    const std::int64_t* index = s.index + batch * each_;
    const auto inside = [&](std::int64_t i) { return index[i] >= 0 && index[i] < rows_; };
    for (std::int64_t i = 0; i < each_; ++i)
      if (inside(i)) ++next[index[i] + 1];
    for (std::int64_t row = 0; row < rows_; ++row) next[row + 1] += next[row];
    for (std::int64_t i = 0; i < each_; ++i)
      if (inside(i)) taps_[static_cast<std::size_t>(batch * each_ + next[index[i]]++)] = batch * each_ + i;
  }

  std::int64_t rows_, each_;
  std::vector<std::int64_t> begin_, taps_;
};

/// Stores one row of weighted sums. each(add) calls add(row of `from`, weight) for every term, in order.
template <class T, class U, class Each>
void sum_row(const T* from, U* to, std::int64_t cols, Each&& each) {
  using C = Compute<T>;
  for (std::int64_t first = 0; first < cols; first += kColumns) {
    const std::int64_t n = std::min(kColumns, cols - first);
    C sum[kColumns] = {};
    each([&](std::int64_t row, C weight) {
      const T* values = from + row * cols + first;
      for (std::int64_t c = 0; c < n; ++c) sum[c] += weight * load(values[c]);
    });
    for (std::int64_t c = 0; c < n; ++c) to[first + c] = store<U>(static_cast<Compute<U>>(sum[c]));
  }
}

}  // namespace

void run_weighted_gather(const WeightedGatherArgs& a) {
  const TapSums& s = a.sums;
  const std::int64_t points = s.batches * s.points;
  if (points * s.cols == 0) return;
  with_types(a.table.dtype, [&]<class T>(TypeTag<T>) {
    dispatch_float(a.points.dtype, "sampling", [&]<class U>(TypeTag<U>) {
      using C = Compute<T>;
      const Weights<C> weight(a.weight, points * s.taps);
      parallel_for(points, grain(s.taps * s.cols), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t* index = s.index + p * s.taps;
          const std::int64_t first = p / s.points * s.rows;
          sum_row(static_cast<const T*>(a.table.data), static_cast<U*>(a.points.data) + p * s.cols, s.cols,
                  [&](auto&& add) {
                    for (std::int64_t t = 0; t < s.taps; ++t)
                      if (index[t] >= 0 && index[t] < s.rows) add(first + index[t], weight[p * s.taps + t]);
                  });
        }
      });
    });
  });
}

void run_weighted_scatter(const WeightedScatterArgs& a) {
  const TapSums& s = a.sums;
  if (s.batches * s.rows * s.cols == 0) return;
  const SortedTaps sorted(s);
  with_types(a.points.dtype, [&]<class T>(TypeTag<T>) {
    dispatch_float(a.table.dtype, "sampling", [&]<class U>(TypeTag<U>) {
      using C = Compute<T>;
      const Weights<C> weight(a.weight, s.batches * s.points * s.taps);
      parallel_for(s.batches * s.rows, grain(4 * s.cols), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          sum_row(static_cast<const T*>(a.points.data), static_cast<U*>(a.table.data) + row * s.cols, s.cols,
                  [&](auto&& add) {
                    for (const std::int64_t tap : sorted.taps_of(row / s.rows, row % s.rows))
                      add(tap / s.taps, weight[tap]);
                  });
      });
    });
  });
}

void run_weighted_dot(const WeightedDotArgs& a) {
  const TapSums& s = a.sums;
  const std::int64_t points = s.batches * s.points;
  if (points * s.taps == 0) return;
  with_types(a.table.dtype, [&]<class T>(TypeTag<T>) {
    dispatch_float(a.points.dtype, "sampling", [&]<class U>(TypeTag<U>) {
      dispatch_float(a.products.dtype, "sampling", [&]<class P>(TypeTag<P>) {
        parallel_for(points, grain(s.taps * s.cols), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t p = begin; p < end; ++p)
            for (std::int64_t i = p * s.taps; i < (p + 1) * s.taps; ++i) {
              double sum = 0;
              if (s.index[i] >= 0 && s.index[i] < s.rows) {
                const T* row = static_cast<const T*>(a.table.data) + (p / s.points * s.rows + s.index[i]) * s.cols;
                const U* point = static_cast<const U*>(a.points.data) + p * s.cols;
                for (std::int64_t c = 0; c < s.cols; ++c)
                  sum += static_cast<double>(load(row[c])) * static_cast<double>(load(point[c]));
              }
              static_cast<P*>(a.products.data)[i] = store_once<P>(sum);
            }
        });
      });
    });
  });
}

}  // namespace binade::cpu
