#include "binade/core/kernels/order_key.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/sort.cuh"
#include "binade/cuda/device/value.cuh"

/// Sorting, searching and selecting.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// Writes word number `word` of the sort keys, in the order of `positions` (null: of the elements).
template <class T>
__global__ void write_key_words(const T* x, const std::uint32_t* positions, std::int64_t count, bool descending,
                                int word, std::uint32_t* keys) {
  each_index(count, [&](std::int64_t i) {
    const OrderKey<T> key = order_key(x[positions != nullptr ? positions[i] : i]);
    keys[i] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(descending ? ~key : key) >> (word * 32));
  });
}

__global__ void write_rows(const std::uint32_t* positions, std::int64_t count, std::int64_t n, std::uint32_t* keys) {
  each_index(count, [&](std::int64_t i) { keys[i] = static_cast<std::uint32_t>(positions[i] / n); });
}

__global__ void write_first(SortArgs a, const std::uint32_t* positions) {
  each_index(a.rows * a.k, [&](std::int64_t i) {
    const std::int64_t r = i / a.k;
    a.index[i] = positions[r * a.n + (i - r * a.k)] - r * a.n;
  });
}

template <class T>
__global__ void write_medians(SortArgs a, const std::uint32_t* positions) {
  each_index(a.rows, [&](std::int64_t r) {
    const std::int64_t last = positions[r * a.n + a.n - 1];
    const T value = static_cast<const T*>(a.x.data)[last];
    a.index[r] = (value != value ? last : positions[r * a.n + (a.n - 1) / 2]) - r * a.n;
  });
}

template <class T>
__global__ void search_values(SearchArgs a) {
  each_index(a.rows * a.m, [&](std::int64_t p) {
    const T* row = static_cast<const T*>(a.sorted.data) + (a.one_row ? 0 : p / a.m * a.n);
    a.to[p] = count_before(row, a.n, static_cast<const T*>(a.values.data)[p], a.right);
  });
}

template <class T>
__global__ void set_flags(FlagArgs a) {
  const auto* x = static_cast<const T*>(a.x.data);
  each_index(a.count, [&](std::int64_t p) { a.flags[p] = a.changes ? p == 0 || x[p] != x[p - 1] : x[p] != T(0); });
}

__global__ void compact_positions(CompactArgs a) {
  each_index(a.count, [&](std::int64_t p) {
    if (a.flags[p]) a.to[a.upto[p] - 1] = p;
    if (a.group != nullptr) a.group[p] = a.upto[p] - 1;
  });
}

__global__ void write_bins(BinArgs a) {
  each_index(a.count, [&](std::int64_t p) { a.to[p] = bin_of(load_at<double>(a.x, p), a.low, a.high, a.bins); });
}

unsigned grid_of(std::int64_t count) { return grid_for(ceil_div(count, kThreads)); }

template <class T>
void sort_rows(const SortArgs& a) {
  const std::int64_t count = a.rows * a.n;
  if (count >> 31 != 0) throw Failure(Status::kUnsupported, "more than 2^31 elements of a sort");
  const unsigned grid = grid_of(count);
  PositionSort sorted(count);
  for (int word = 0; word < static_cast<int>(sizeof(OrderKey<T>) / 4); ++word) {
    launch(write_key_words<T>, grid, kThreads, 0, static_cast<const T*>(a.x.data),
           static_cast<const std::uint32_t*>(word == 0 ? nullptr : sorted.positions()), count, a.descending, word,
           sorted.keys());
    sorted.sort(sizeof(T) == 1 && !a.descending ? 0xffu : 0xffffffffu);
  }
  if (a.rows > 1) {
    launch(write_rows, grid, kThreads, 0, sorted.positions(), count, a.n, sorted.keys());
    sorted.sort(static_cast<std::uint32_t>(a.rows - 1));
  }
  if (a.median)
    launch(write_medians<T>, grid_of(a.rows), kThreads, 0, a, sorted.positions());
  else
    launch(write_first, grid_of(a.rows * a.k), kThreads, 0, a, sorted.positions());
}

}  // namespace

void run_sort(const SortArgs& a) {
  if (a.rows * a.k == 0) return;
  if (!with_ordered(a.x.dtype, [&]<class T>(T) { sort_rows<T>(a); }))
    throw Failure(Status::kUnsupported, "a sort of this dtype");
}

void run_search(const SearchArgs& a) {
  const std::int64_t count = a.rows * a.m;
  if (count == 0) return;
  const bool known = with_ordered(a.values.dtype,
                                  [&]<class T>(T) { launch(search_values<T>, grid_of(count), kThreads, 0, a); });
  if (!known) throw Failure(Status::kUnsupported, "searchsorted of this dtype");
}

void run_flag(const FlagArgs& a) {
  if (a.count == 0) return;
  if (!with_ordered(a.x.dtype, [&]<class T>(T) { launch(set_flags<T>, grid_of(a.count), kThreads, 0, a); }))
    throw Failure(Status::kUnsupported, "nonzero of this dtype");
}

void run_compact(const CompactArgs& a) {
  if (a.count > 0) launch(compact_positions, grid_of(a.count), kThreads, 0, a);
}

void run_bin(const BinArgs& a) {
  if (a.count > 0) launch(write_bins, grid_of(a.count), kThreads, 0, a);
}

}  // namespace binade::cuda
