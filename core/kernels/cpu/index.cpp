#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/scatter_terms.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // elements
constexpr std::int64_t kColumns = 64;     // columns of a chunk

/// Throws DataError with the position of the first index out of range.
void check_indices(const IndexGrid& g) {
  const std::int64_t count = g.indices();
  std::atomic<bool> good = true;
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    bool all = true;
    for (std::int64_t p = begin; p < end; ++p)
      all &= static_cast<std::uint64_t>(g.index[p]) < static_cast<std::uint64_t>(g.extent);
    if (!all) good.store(false, std::memory_order_relaxed);
  });
  if (good) return;
  const std::int64_t* bad = std::find_if(g.index, g.index + count, [&](std::int64_t i) { return !g.inside(i); });
  throw DataError(describe({.call = g.call, .position = bad - g.index, .value = *bad}));
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

template <class E>
void gather_rows(const IndexGrid& g, const E* from, E* to) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / g.inner);
  parallel_for(g.outer * g.count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin / g.count, j = begin % g.count;
    for (std::int64_t r = begin; r < end; ++r) {
      E* y = to + r * g.inner;
      const E* x = from + o * g.extent * g.step;
      if (g.by_row && g.inner == 1) {
        *y = x[g.index[j]];
      } else if (g.by_row) {
        std::memcpy(static_cast<void*>(y), x + g.index[j] * g.step, static_cast<std::size_t>(g.inner) * sizeof(E));
      } else if (g.partial) {
        for (std::int64_t i = 0; i < g.inner; ++i) y[i] = from[g.base(o, i) + g.index[r * g.inner + i] * g.step];
      } else {
        const std::int64_t* index = g.index + r * g.inner;
        for (std::int64_t i = 0; i < g.inner; ++i) y[i] = x[index[i] * g.step + i];
      }
      if (++j == g.count) {
        j = 0;
        ++o;
      }
    }
  });
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

/// Calls f(j, k) for the contributions of these columns, those to one target in the order of j.
template <class F>
void for_each_term(const IndexGrid& g, const Columns& columns, F&& f) {
  for (std::int64_t j = 0; j < g.count; ++j)
    for (std::int64_t k = 0; k < columns.count; ++k) f(j, k);
}

/// Places for a value of each target of these columns. If the index is much shorter than the axis, only the targets
/// that it names have a place, so that the memory grows with the index and not with the tensor.
class Slots {
 public:
  Slots(const IndexGrid& g, const Columns& c) : grid_(g), columns_(c), all_(g.extent / 4 <= g.count) {
    if (all_) return;
    named_.reserve(static_cast<std::size_t>(g.count * c.count));
    for_each_term(g, c, [&](std::int64_t j, std::int64_t k) { named_.push_back(c.number(g, j, k)); });
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

/// Combines whole rows of contiguous columns, for an index of rows.
template <Scattering how, class T>
void scatter_rows(const ScatterArgs& a, const Columns& c) {
  const IndexGrid& g = a.grid;
  for (std::int64_t j = 0; j < g.count; ++j) {
    T* __restrict to = static_cast<T*>(a.into) + c.target(g, j, 0);
    const T* __restrict from = static_cast<const T*>(a.source) + c.element(g, j, 0);
    for (std::int64_t k = 0; k < c.count; ++k) to[k] = scatter_combined(how, to[k], from[k]);
  }
}

template <Scattering how, class T>
void scatter_columns(const ScatterArgs& a) {
  const IndexGrid& g = a.grid;
  const auto* source = static_cast<const T*>(a.source);
  auto* into = static_cast<T*>(a.into);
  for_each_columns(g, [&](const Columns& c) {
    if (g.by_row && a.include_self && !a.one_source && how != Scattering::kMean) return scatter_rows<how, T>(a, c);
    if (!a.include_self)
      for_each_term(g, c, [&](std::int64_t j, std::int64_t k) { into[c.target(g, j, k)] = scatter_start<T>(how); });
    for_each_term(g, c, [&](std::int64_t j, std::int64_t k) {
      T& to = into[c.target(g, j, k)];
      to = scatter_combined(how, to, source[a.one_source ? 0 : c.element(g, j, k)]);
    });
    if constexpr (how == Scattering::kMean) {
      const Slots slot(g, c);
      std::vector<std::int64_t> counts(slot.size());
      for_each_term(g, c, [&](std::int64_t j, std::int64_t k) { ++counts[slot(j, k)]; });
      for_each_term(g, c, [&](std::int64_t j, std::int64_t k) {
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

/// The last contribution to a target gets its gradient, the others 0, and the target's own value too.
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

/// Each contribution gets the gradient of its target, and the target's own value too if it counts.
template <class T>
void sum_gradient(const ScatterGradientArgs& a, const Columns& c) {
  const IndexGrid& g = a.grid;
  for_each_term(g, c, [&](std::int64_t j, std::int64_t k) {
    const std::int64_t to = c.target(g, j, k);
    if (a.gsource != nullptr) static_cast<T*>(a.gsource)[c.element(g, j, k)] = static_cast<const T*>(a.gy)[to];
    if (a.gx != nullptr && !a.include_self) static_cast<T*>(a.gx)[to] = T(0);
  });
}

template <class T>
T value_at(const void* values, std::int64_t i) {
  return values != nullptr ? static_cast<const T*>(values)[i] : T(0);
}

template <class T>
void reduction_gradient(const ScatterGradientArgs& a, const Columns& c) {
  const IndexGrid& g = a.grid;
  const Slots slot(g, c);
  std::vector<ScatterTotals<T>> totals(slot.size());
  std::vector<bool> touched(totals.size());
  for_each_term(g, c, [&](std::int64_t j, std::int64_t k) {
    const std::int64_t to = c.target(g, j, k);
    const std::size_t s = slot(j, k);
    const T result = value_at<T>(a.y, to);
    if (a.include_self && !touched[s]) totals[s].add(a.how, value_at<T>(a.x, to), result);
    touched[s] = true;
    totals[s].add(a.how, value_at<T>(a.source, c.element(g, j, k)), result);
  });
  for_each_term(g, c, [&](std::int64_t j, std::int64_t k) {
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
  check_indices(a.grid);
  with_bytes(a.element_bytes,
             [&]<class E>(E*) { gather_rows(a.grid, static_cast<const E*>(a.from), static_cast<E*>(a.to)); });
}

void run_scatter(const ScatterArgs& a) {
  if (a.grid.numel() == 0) return;
  check_indices(a.grid);
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
  check_indices(a.grid);  // again: the index may be memory of the user, who can write it after forward
  const auto run = [&]<class T>(T) {
    for_each_columns(a.grid, [&](const Columns& c) {
      if (a.how == Scattering::kAssign)
        assign_gradient<T>(a, c);
      else if (a.how == Scattering::kAdd)
        sum_gradient<T>(a, c);
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
