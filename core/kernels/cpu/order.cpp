#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/vector16.h"
#include "binade/core/kernels/order_key.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements

/// A key and the position of its element. Positions make all items different, so that any sort is stable.
template <class K>
struct Item {
  K key;
  K position;
  friend bool operator<(const Item& a, const Item& b) {
    return a.key < b.key || (a.key == b.key && a.position < b.position);
  }
};

/// Sorts by key, digit by digit, the lowest digit first. Skips digits that are the same in all keys.
template <class K>
void radix_sort(std::vector<Item<K>>& items) {
  constexpr int kBits = 11, kDigits = 1 << kBits, kPasses = (sizeof(K) * 8 + kBits - 1) / kBits;
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(kPasses) * kDigits);
  const auto digit_of = [](K key, int pass) {
    return static_cast<std::size_t>(key >> (pass * kBits)) & static_cast<std::size_t>(kDigits - 1);
  };
  for (const Item<K>& item : items)
    for (int pass = 0; pass < kPasses; ++pass)
      ++counts[static_cast<std::size_t>(pass) * kDigits + digit_of(item.key, pass)];
  std::vector<Item<K>> other(items.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    std::uint32_t* starts = counts.data() + static_cast<std::size_t>(pass) * kDigits;
    if (starts[digit_of(items[0].key, pass)] == items.size()) continue;
    std::exclusive_scan(starts, starts + kDigits, starts, 0u);
    for (const Item<K>& item : items) other[starts[digit_of(item.key, pass)]++] = item;
    items.swap(other);
  }
}

template <class K, class T>
Item<K> item_of(const T* x, std::int64_t i, bool descending) {
  const K key = order_key(x[i]);
  return {descending ? static_cast<K>(~key) : key, static_cast<K>(i)};
}

/// Returns true if any of the elements in the 64 bytes at x comes before `bound` in the sorted order, or if `bound` is
/// NaN. NaN is larger than all numbers.
template <class T>
bool any_may_precede(const T* x, T bound, bool descending) {
  using E = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
  using V = Vector16<E>;
  if (bound != bound) return true;
  const V limit = static_cast<E>(bound) - V{};
  const auto* from = reinterpret_cast<const E*>(x);
  V v[4];
  for (int i = 0; i < 4; ++i) v[i] = load16<E>(from + i * kLanes16<E>);
  if (descending)  // not (x <= limit), which is true if x is NaN
    return any_bit(~((v[0] <= limit) & (v[1] <= limit) & (v[2] <= limit) & (v[3] <= limit)));
  return any_bit((v[0] < limit) | (v[1] < limit) | (v[2] < limit) | (v[3] < limit));
}

/// Calls add(item) for each item from `begin` on that comes before last(). add() may change last(). An item with the
/// same key as last() comes after it, because it is later in x. Skips 64 bytes of elements at once if all come after.
template <class K, class T, class Last, class Add>
void each_preceding(const T* x, std::int64_t begin, std::int64_t n, bool descending, Last&& last, Add&& add) {
  constexpr std::int64_t kStep = 64 / sizeof(T);
  for (std::int64_t i = begin; i < n; i += kStep) {
    if (i + kStep <= n && !any_may_precede(x + i, x[last().position], descending)) continue;
    for (std::int64_t j = i; j < std::min(n, i + kStep); ++j)
      if (const Item<K> item = item_of<K>(x, j, descending); item.key < last().key) add(item);
  }
}

/// Stores the k first of n items in `items`, sorted. For a small k: each item is inserted at its place.
template <class K, class T>
void select_few(std::vector<Item<K>>& items, const T* x, std::int64_t n, std::int64_t k, bool descending) {
  items.resize(static_cast<std::size_t>(k));
  for (std::int64_t i = 0; i < k; ++i) items[static_cast<std::size_t>(i)] = item_of<K>(x, i, descending);
  std::sort(items.begin(), items.end());
  Item<K>* const first = items.data();
  each_preceding<K>(
      x, k, n, descending, [&]() -> const Item<K>& { return first[k - 1]; },
      [&](const Item<K>& item) {
        std::int64_t at = k - 1;
        for (; at > 0 && item.key < first[at - 1].key; --at) first[at] = first[at - 1];
        first[at] = item;
      });
}

/// Stores the k first of n items in `items`, sorted. An item is skipped if k items that come before it are known.
template <class K, class T>
void select_first(std::vector<Item<K>>& items, const T* x, std::int64_t n, std::int64_t k, bool descending) {
  constexpr std::int64_t kFew = 16;
  if (k <= kFew) return select_few(items, x, n, k, descending);
  const auto most = static_cast<std::size_t>(2 * k);
  const auto middle = static_cast<std::ptrdiff_t>(k - 1);
  items.clear();
  for (std::int64_t i = 0; i < k; ++i) items.push_back(item_of<K>(x, i, descending));
  Item<K> last = *std::max_element(items.begin(), items.end());
  const auto keep_first = [&] {
    std::nth_element(items.begin(), items.begin() + middle, items.end());
    items.resize(static_cast<std::size_t>(k));
    last = items[static_cast<std::size_t>(middle)];
  };
  each_preceding<K>(
      x, k, n, descending, [&]() -> const Item<K>& { return last; },
      [&](const Item<K>& item) {
        items.push_back(item);
        if (items.size() == most) keep_first();
      });
  keep_first();
  std::sort(items.begin(), items.end());
}

/// Returns the position of the last NaN or, if there is none, of the lower middle element.
template <class K, class T>
std::int64_t median_of(std::vector<Item<K>>& items, const T* x, std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>)
    for (std::int64_t i = n; i-- > 0;)
      if (x[i] != x[i]) return i;
  items.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) items[static_cast<std::size_t>(i)] = item_of<K>(x, i, false);
  const auto middle = items.begin() + static_cast<std::ptrdiff_t>((n - 1) / 2);
  std::nth_element(items.begin(), middle, items.end());
  return static_cast<std::int64_t>(middle->position);
}

template <class K, class T>
void sort_row(std::vector<Item<K>>& items, const T* x, const SortArgs& a, std::int64_t* index) {
  constexpr std::int64_t kShort = 2048;  // for fewer elements the digits' counts take longer than a sort by comparison
  if (a.median) {
    *index = median_of<K>(items, x, a.n);
    return;
  }
  if (a.k < a.n / 2) {
    select_first(items, x, a.n, a.k, a.descending);
  } else {
    items.resize(static_cast<std::size_t>(a.n));
    for (std::int64_t i = 0; i < a.n; ++i) items[static_cast<std::size_t>(i)] = item_of<K>(x, i, a.descending);
    if (a.n <= kShort)
      std::sort(items.begin(), items.end());
    else
      radix_sort(items);
  }
  for (std::int64_t i = 0; i < a.k; ++i)
    index[i] = static_cast<std::int64_t>(items[static_cast<std::size_t>(i)].position);
}

template <class T>
void search_typed(const SearchArgs& a) {
  const auto* values = static_cast<const T*>(a.values.data);
  parallel_for(a.rows * a.m, kGrain / 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const T* row = static_cast<const T*>(a.sorted.data) + (a.one_row ? 0 : p / a.m * a.n);
      a.to[p] = count_before(row, a.n, values[p], a.right);
    }
  });
}

}  // namespace

void run_sort(const SortArgs& a) {
  if (a.rows * a.k == 0) return;
  check<ArgumentError>(a.n < std::int64_t{1} << 32, "sort: wanted at most 2^32 - 1 elements along the axis, got {}",
                       a.n);
  const bool known = with_ordered(a.x.dtype, [&]<class T>(T) {
    using K = OrderKey<T>;
    parallel_for(a.rows, std::max<std::int64_t>(1, kGrain / a.n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Item<K>> items;
      for (std::int64_t r = begin; r < end; ++r)
        sort_row<K>(items, static_cast<const T*>(a.x.data) + r * a.n, a, a.index + r * a.k);
    });
  });
  if (!known) throw_not_floating(a.x.dtype, "sort");
}

void run_search(const SearchArgs& a) {
  if (a.rows * a.m == 0) return;
  if (!with_ordered(a.values.dtype, [&]<class T>(T) { search_typed<T>(a); }))
    throw_not_floating(a.values.dtype, "searchsorted");
}

void run_flag(const FlagArgs& a) {
  const bool known = with_ordered(a.x.dtype, [&]<class T>(T) {
    const auto* x = static_cast<const T*>(a.x.data);
    parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) a.flags[p] = a.changes ? p == 0 || x[p] != x[p - 1] : x[p] != T(0);
    });
  });
  if (!known) throw_not_floating(a.x.dtype, "nonzero");
}

void run_compact(const CompactArgs& a) {
  parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      if (a.flags[p]) a.to[a.upto[p] - 1] = p;
      if (a.group != nullptr) a.group[p] = a.upto[p] - 1;
    }
  });
}

void run_bin(const BinArgs& a) {
  dispatch_float(a.x.dtype, "histc", [&]<class T>(TypeTag<T>) {
    const auto* x = static_cast<const T*>(a.x.data);
    parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        a.to[p] = bin_of(static_cast<double>(load(x[p])), a.low, a.high, a.bins);
    });
  });
}

}  // namespace binade::cpu
