#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/vector16.h"
#include "binade/core/kernels/scatter_terms.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // elements
constexpr std::int64_t kColumns = 64;     // columns of a chunk
constexpr std::int64_t kChecked = 1024;   // indices that are checked before they are used

/// True if all n indices are in [0, extent). If an index is out of range, either the index itself or extent - 1 minus
/// the index is negative.
bool all_inside(const std::int64_t* index, std::int64_t n, std::int64_t extent) {
  using V = Vector16<std::uint64_t>;
  const std::uint64_t last = static_cast<std::uint64_t>(extent) - 1;
  V signs[2] = {};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int v = 0; v < 2; ++v) {
      const V at = load16<std::uint64_t>(index + i + 2 * v);
      signs[v] |= at | (last - at);
    }
  std::uint64_t all = (signs[0] | signs[1])[0] | (signs[0] | signs[1])[1];
  for (; i < n; ++i) all |= static_cast<std::uint64_t>(index[i]) | (last - static_cast<std::uint64_t>(index[i]));
  return all >> 63 == 0;
}

/// Records whether all indices so far were in range. A thread that finds an index out of range skips its work; finish()
/// then throws DataError with the position of the first such index.
class IndexCheck {
 public:
  explicit IndexCheck(const IndexGrid& g) : grid_(g) {}
  bool operator()(const std::int64_t* index, std::int64_t n) {
    const bool good = all_inside(index, n, grid_.extent);
    if (!good) good_.store(false, std::memory_order_relaxed);
    return good;
  }
  void finish() const {
    if (good_) return;
    const IndexGrid& g = grid_;
    const std::int64_t* bad = std::find_if(g.index, g.index + g.indices(),
                                           [&](std::int64_t i) { return !g.inside(i); });
    throw DataError(describe({.call = g.call, .position = bad - g.index, .value = *bad}));
  }

 private:
  const IndexGrid& grid_;
  std::atomic<bool> good_ = true;
};

/// Checks all indices before any is used.
void check_indices(const IndexGrid& g) {
  IndexCheck check(g);
  parallel_for(g.indices(), kGrain, [&](std::int64_t begin, std::int64_t end) { check(g.index + begin, end - begin); });
  check.finish();
}

/// Calls f(E*) with a null pointer to an unsigned type of `bytes` bytes.
template <class F>
void with_bytes(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(static_cast<std::uint8_t*>(nullptr));
    case 2: return f(static_cast<std::uint16_t*>(nullptr));
    case 4: return f(static_cast<std::uint32_t*>(nullptr));
    default: return f(static_cast<std::uint64_t*>(nullptr));
  }
}

/// Gathers along the innermost axis: y[i] = x[index[i] * step]. The indices are checked while they are in the L1 cache.
template <class E>
void gather_line(IndexCheck& check, const std::int64_t* index, std::int64_t n, const E* x, std::int64_t step,
                 E* __restrict y) {
  for (std::int64_t i = 0; i < n; i += kChecked) {
    const std::int64_t end = std::min(n, i + kChecked);
    if (!check(index + i, end - i)) return;
    if (step == 1) {
      std::int64_t k = i;
      for (; k + 8 <= end; k += 8) {
        __builtin_prefetch(index + k + kChecked);  // a cache line of the indices that are checked next
        for (std::int64_t u = k; u < k + 8; ++u) y[u] = x[index[u]];
      }
      for (; k < end; ++k) y[k] = x[index[k]];
    } else {
      for (std::int64_t k = i; k < end; ++k) y[k] = x[index[k] * step];
    }
  }
}

/// Calls body(o, first j, end j) for ranges that together cover all positions (o, j), in parallel.
template <class F>
void for_each_positions(const IndexGrid& g, std::int64_t grain, F&& body) {
  parallel_for(g.outer * g.count, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t o = begin / g.count, j = begin % g.count, last = std::min(g.count, j + end - begin);
      body(o, j, last);
      begin += last - j;
    }
  });
}

template <class E>
void gather_typed(const IndexGrid& g, const E* from, E* to) {
  IndexCheck check(g);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / g.inner);
  for_each_positions(g, grain, [&](std::int64_t o, std::int64_t first, std::int64_t last) {
    E* const y = to + (o * g.count + first) * g.inner;
    if (g.inner == 1) {
      const std::int64_t* index = g.index + (g.by_row ? 0 : o * g.count) + first;
      return gather_line(check, index, last - first, from + g.base(o, 0), g.step, y);
    }
    if (g.by_row) {
      if (!check(g.index + first, last - first)) return;
      const E* x = from + o * g.extent * g.step;
      for (std::int64_t j = first; j < last; ++j)
        std::memcpy(static_cast<void*>(y + (j - first) * g.inner), x + g.index[j] * g.step,
                    static_cast<std::size_t>(g.inner) * sizeof(E));
      return;
    }
    for (std::int64_t j = first; j < last; ++j) {
      const std::int64_t* index = g.index + (o * g.count + j) * g.inner;
      E* __restrict row = y + (j - first) * g.inner;
      if (!check(index, g.inner)) return;
      if (g.partial) {
        for (std::int64_t i = 0; i < g.inner; ++i) row[i] = from[g.base(o, i) + index[i] * g.step];
      } else {
        const E* x = from + o * g.extent * g.step;
        for (std::int64_t i = 0; i < g.inner; ++i) row[i] = x[index[i] * g.step + i];
      }
    }
  });
  check.finish();
}

/// Up to kColumns neighboring columns of the index grid. The contributions to a target are all in one column.
struct Columns {
  std::int64_t outer, first, count;
  std::int64_t base[kColumns];

  std::int64_t target(const IndexGrid& g, std::int64_t j, std::int64_t k) const {
    return base[k] + g.at(outer, j, first + k) * g.step;
  }
  std::int64_t element(const IndexGrid& g, std::int64_t j, std::int64_t k) const {
    return (outer * g.count + j) * g.inner + first + k;
  }
  /// Returns the number of a target among the extent * count targets of these columns.
  std::int64_t number(const IndexGrid& g, std::int64_t j, std::int64_t k) const {
    return g.at(outer, j, first + k) * count + k;
  }
};

/// Calls body(columns) for all columns, in parallel.
template <class F>
void for_each_columns(const IndexGrid& g, F&& body) {
  const std::int64_t chunks = (g.inner + kColumns - 1) / kColumns;
  const std::int64_t work = g.count * std::min(g.inner, kColumns);
  parallel_for(g.outer * chunks, std::max<std::int64_t>(1, kGrain / work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      Columns columns{.outer = c / chunks, .first = c % chunks * kColumns, .count = 0, .base = {}};
      columns.count = std::min(kColumns, g.inner - columns.first);
      for (std::int64_t k = 0; k < columns.count; ++k) columns.base[k] = g.base(columns.outer, columns.first + k);
      body(columns);
    }
  });
}

/// Calls f(j, k) for each contribution of these columns. Contributions to one target come in the order of j.
template <class F>
void for_each_contribution(const IndexGrid& g, const Columns& columns, F&& f) {
  for (std::int64_t j = 0; j < g.count; ++j)
    for (std::int64_t k = 0; k < columns.count; ++k) f(j, k);
}

/// Places for a value of each target of these columns. If the index is much shorter than the axis, only the targets
/// that it names have a place, so that the memory grows with the index and not with the tensor.
class TargetSlots {
 public:
  TargetSlots(const IndexGrid& g, const Columns& c) : grid_(g), columns_(c), all_(g.extent / 4 <= g.count) {
    if (all_) return;
    named_.reserve(static_cast<std::size_t>(g.count * c.count));
    for_each_contribution(g, c, [&](std::int64_t j, std::int64_t k) { named_.push_back(c.number(g, j, k)); });
    std::sort(named_.begin(), named_.end());
    named_.erase(std::unique(named_.begin(), named_.end()), named_.end());
  }
  std::size_t size() const { return all_ ? static_cast<std::size_t>(grid_.extent * columns_.count) : named_.size(); }
  std::size_t operator()(std::int64_t j, std::int64_t k) const {
    const std::int64_t number = columns_.number(grid_, j, k);
    if (all_) return static_cast<std::size_t>(number);
    return static_cast<std::size_t>(std::lower_bound(named_.begin(), named_.end(), number) - named_.begin());
  }

 private:
  const IndexGrid& grid_;
  const Columns& columns_;
  bool all_;
  std::vector<std::int64_t> named_{};  // in ascending order; empty if all targets have a place
};

/// Combines to[k] with from[k] for n contiguous elements.
template <Scattering how, class T>
void combine_run(T* __restrict to, const T* __restrict from, std::int64_t n) {
  std::int64_t k = 0;
  if constexpr (how == Scattering::kAdd && std::is_floating_point_v<T>)
    for (; k + kLanes16<T> <= n; k += kLanes16<T>) store16(to + k, load16<T>(to + k) + load16<T>(from + k));
  for (; k < n; ++k) to[k] = scatter_combined(how, to[k], from[k]);
}

/// Combines whole rows, for an index of rows, or slices of rows if there are more threads than `outer`. The division
/// does not change the bits, because the contributions to a target are combined in the order of j.
template <Scattering how, class T>
void scatter_rows(const ScatterArgs& a) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T)), kAhead = 4;
  const IndexGrid& g = a.grid;
  const std::int64_t wanted = (num_threads() + g.outer - 1) / g.outer;
  const std::int64_t width = std::max<std::int64_t>(1, (g.inner / wanted + kLine - 1) / kLine) * kLine;
  const std::int64_t slices = (g.inner + width - 1) / width;
  parallel_for(g.outer * slices, std::max<std::int64_t>(1, kGrain / (g.count * std::min(g.inner, width))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t s = begin; s < end; ++s) {
                   const std::int64_t o = s / slices, first = s % slices * width, n = std::min(width, g.inner - first);
                   T* to = static_cast<T*>(a.into) + o * g.extent * g.step + first;
                   const T* from = static_cast<const T*>(a.source) + o * g.count * g.inner + first;
                   for (std::int64_t j = 0; j < g.count; ++j, from += g.inner) {
                     if (j + kAhead < g.count)
                       for (std::int64_t k = 0; k < std::min(n, 8 * kLine); k += kLine)
                         __builtin_prefetch(to + g.index[j + kAhead] * g.step + k, 1);
                     combine_run<how>(to + g.index[j] * g.step, from, n);
                   }
                 }
               });
}

/// Combines contributions along the innermost axis: contribution i, source[i * advance], with to[index[i] * step]. The
/// indices are checked as in gather_line().
template <Scattering how, class T>
void scatter_line(IndexCheck& check, const std::int64_t* index, std::int64_t n, const T* source, std::int64_t advance,
                  T* to, std::int64_t step) {
  const auto combine = [&](std::int64_t i, std::int64_t count, auto target_of) {
    for (std::int64_t u = i; u < i + count; ++u) {
      T& target = to[target_of(index[u])];
      target = scatter_combined(how, target, source[u * advance]);
    }
  };
  for (std::int64_t i = 0; i < n; i += kChecked) {
    const std::int64_t end = std::min(n, i + kChecked);
    if (!check(index + i, end - i)) return;
    if (step != 1) {
      combine(i, end - i, [&](std::int64_t position) { return position * step; });
      continue;
    }
    const auto itself = [](std::int64_t position) { return position; };
    std::int64_t k = i;
    for (; k + 8 <= end; k += 8) {
      __builtin_prefetch(index + k + kChecked);
      combine(k, 8, itself);
    }
    combine(k, end - k, itself);
  }
}

/// Combines all contributions of these columns, for kinds of scatter that need only the target's value. The indices are
/// checked row by row.
template <Scattering how, class T>
void scatter_checked(const ScatterArgs& a, const Columns& c, IndexCheck& check) {
  const IndexGrid& g = a.grid;
  const std::int64_t step = a.one_source ? 0 : 1;
  const std::int64_t start = c.element(g, 0, 0);
  auto* const into = static_cast<T*>(a.into);
  if (g.inner == 1)
    return scatter_line<how>(check, g.index + (g.by_row ? 0 : start), g.count,
                             static_cast<const T*>(a.source) + start * step, step, into + c.base[0], g.step);
  for (std::int64_t j = 0; j < g.count; ++j) {
    const std::int64_t* index = g.index + start + j * g.inner;
    const T* __restrict source = static_cast<const T*>(a.source) + (start + j * g.inner) * step;
    if (!check(index, c.count)) return;
    for (std::int64_t k = 0; k < c.count; ++k) {
      T& target = into[c.base[k] + index[k] * g.step];
      target = scatter_combined(how, target, source[k * step]);
    }
  }
}

template <Scattering how, class T>
void scatter_columns(const ScatterArgs& a) {
  const IndexGrid& g = a.grid;
  const auto* source = static_cast<const T*>(a.source);
  auto* into = static_cast<T*>(a.into);
  IndexCheck check(g);
  if (how != Scattering::kMean && a.include_self && (!g.by_row || g.inner == 1)) {
    for_each_columns(g, [&](const Columns& c) { scatter_checked<how, T>(a, c, check); });
    return check.finish();
  }
  check_indices(g);
  if (how != Scattering::kMean && a.include_self && !a.one_source) return scatter_rows<how, T>(a);
  for_each_columns(g, [&](const Columns& c) {
    if (!a.include_self)
      for_each_contribution(g, c,
                            [&](std::int64_t j, std::int64_t k) { into[c.target(g, j, k)] = scatter_start<T>(how); });
    for_each_contribution(g, c, [&](std::int64_t j, std::int64_t k) {
      T& to = into[c.target(g, j, k)];
      to = scatter_combined(how, to, source[a.one_source ? 0 : c.element(g, j, k)]);
    });
    if constexpr (how == Scattering::kMean) {
      const TargetSlots slot(g, c);
      std::vector<std::int64_t> counts(slot.size());
      for_each_contribution(g, c, [&](std::int64_t j, std::int64_t k) { ++counts[slot(j, k)]; });
      for_each_contribution(g, c, [&](std::int64_t j, std::int64_t k) {
        std::int64_t& count = counts[slot(j, k)];
        T& to = into[c.target(g, j, k)];
        if (count > 0) to = scatter_mean(to, count + (a.include_self ? 1 : 0));
        count = 0;
      });
    }
  });
}

template <class T>
void scatter_typed(const ScatterArgs& a) {
  switch (a.how) {
    case Scattering::kAssign: return scatter_columns<Scattering::kAssign, T>(a);
    case Scattering::kAdd: return scatter_columns<Scattering::kAdd, T>(a);
    case Scattering::kMean: return scatter_columns<Scattering::kMean, T>(a);
    case Scattering::kProduct: return scatter_columns<Scattering::kProduct, T>(a);
    case Scattering::kLargest: return scatter_columns<Scattering::kLargest, T>(a);
    case Scattering::kSmallest: return scatter_columns<Scattering::kSmallest, T>(a);
  }
}

/// The last contribution to a target gets the target's gradient; the other contributions and the old value get 0.
template <class T>
void assign_gradient(const ScatterGradientArgs& a, const Columns& c) {
  const IndexGrid& g = a.grid;
  for (std::int64_t j = g.count; j-- > 0;)
    for (std::int64_t k = 0; k < c.count; ++k) {
      T& left = static_cast<T*>(a.gx)[c.target(g, j, k)];
      if (a.gsource != nullptr) static_cast<T*>(a.gsource)[c.element(g, j, k)] = left;
      left = T(0);
    }
}

/// Each contribution gets its target's gradient. The target's old value gets it too if `include_self`, otherwise 0.
template <class T>
void sum_gradient(const ScatterGradientArgs& a) {
  const IndexGrid& g = a.grid;
  if (a.gsource != nullptr) gather_typed(g, static_cast<const T*>(a.gy), static_cast<T*>(a.gsource));
  if (a.gx == nullptr || a.include_self) return;
  check_indices(g);
  for_each_columns(g, [&](const Columns& c) {
    for_each_contribution(g, c,
                          [&](std::int64_t j, std::int64_t k) { static_cast<T*>(a.gx)[c.target(g, j, k)] = T(0); });
  });
}

template <class T>
T value_at(const void* values, std::int64_t i) {
  return values != nullptr ? static_cast<const T*>(values)[i] : T(0);
}

template <class T>
void reduction_gradient(const ScatterGradientArgs& a, const Columns& c) {
  const IndexGrid& g = a.grid;
  const TargetSlots slot(g, c);
  std::vector<ScatterTotals<T>> totals(slot.size());
  std::vector<bool> touched(totals.size());
  for_each_contribution(g, c, [&](std::int64_t j, std::int64_t k) {
    const std::int64_t to = c.target(g, j, k);
    const std::size_t s = slot(j, k);
    const T result = value_at<T>(a.y, to);
    if (a.include_self && !touched[s]) totals[s].add(a.how, value_at<T>(a.x, to), result);
    touched[s] = true;
    totals[s].add(a.how, value_at<T>(a.source, c.element(g, j, k)), result);
  });
  for_each_contribution(g, c, [&](std::int64_t j, std::int64_t k) {
    const std::int64_t to = c.target(g, j, k), at = c.element(g, j, k);
    const std::size_t s = slot(j, k);
    const T result = value_at<T>(a.y, to), gy = value_at<T>(a.gy, to);
    if (a.gsource != nullptr)
      static_cast<T*>(a.gsource)[at] = totals[s].gradient(a.how, value_at<T>(a.source, at), result, gy);
    if (a.gx != nullptr && touched[s])
      static_cast<T*>(a.gx)[to] = a.include_self ? totals[s].gradient(a.how, value_at<T>(a.x, to), result, gy) : T(0);
    touched[s] = false;
  });
}

}  // namespace

void run_gather(const GatherArgs& a) {
  if (a.grid.numel() == 0) return;
  with_bytes(a.element_bytes,
             [&]<class E>(E*) { gather_typed(a.grid, static_cast<const E*>(a.from), static_cast<E*>(a.to)); });
}

void run_scatter(const ScatterArgs& a) {
  if (a.grid.numel() == 0) return;
  if (a.how == Scattering::kAssign)
    return with_bytes(size_of(a.dtype), [&]<class E>(E*) { scatter_columns<Scattering::kAssign, E>(a); });
  switch (a.dtype) {
    case DType::f32: return scatter_typed<float>(a);
    case DType::f64: return scatter_typed<double>(a);
    case DType::i64: return scatter_typed<std::int64_t>(a);
    case DType::i32: return scatter_typed<std::int32_t>(a);
    case DType::u8: return scatter_typed<std::uint8_t>(a);
    case DType::boolean: return scatter_typed<bool>(a);
    default: throw_not_floating(a.dtype, "scatter");
  }
}

void run_scatter_gradient(const ScatterGradientArgs& a) {
  if (a.grid.numel() == 0) return;
  // The indices are checked again: they may be memory of the user, who can write to it after forward.
  const auto run = [&]<class T>(T) {
    if (a.how == Scattering::kAdd) return sum_gradient<T>(a);
    check_indices(a.grid);
    for_each_columns(a.grid, [&](const Columns& c) {
      if (a.how == Scattering::kAssign)
        assign_gradient<T>(a, c);
      else
        reduction_gradient<T>(a, c);
    });
  };
  a.dtype == DType::f64 ? run(double{}) : run(float{});
}

void run_linear_index(const LinearIndexArgs& a) {
  for (std::int64_t p = 0; p < a.count; ++p) {
    std::int64_t offsets[LinearIndexArgs::kMaxRank] = {}, rest = p, sum = 0;
    for (int d = a.rank - 1; d >= 0; --d) {
      const std::int64_t digit = rest % a.dims[d];
      for (int k = 0; k < a.indices; ++k) offsets[k] += digit * a.index_strides[k][d];
      rest /= a.dims[d];
    }
    for (int k = 0; k < a.indices; ++k) {
      const std::int64_t index = a.index[k][offsets[k]];
      if (index < -a.extents[k] || index >= a.extents[k]) [[unlikely]]
        throw DataError(describe({.call = a.call, .position = p * a.indices + k, .value = index}));
      sum += (index < 0 ? index + a.extents[k] : index) * a.strides[k];
    }
    a.to[p] = sum;
  }
}

void run_coordinates(const CoordinatesArgs& a) {
  parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      std::int64_t rest = a.flat[p];
      for (int d = a.rank - 1; d >= 0; --d) {
        a.to[p * a.rank + d] = rest % a.dims[d];
        rest /= a.dims[d];
      }
    }
  });
}

}  // namespace binade::cpu
