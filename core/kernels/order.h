#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

/// Sorting, searching and selecting. Elements are f32, f64, i64, i32, u8 or bool; NaN is greater than every number, and
/// -0 equals 0.
namespace binade {

/// index[r, 0 … k) = the positions of the k first elements of row r in sorted order. Equal elements keep their order.
/// `median`: index[r] = the position of the last NaN or, if there is none, of the middle element (the lower of two).
struct SortArgs {
  In x{};  ///< (rows, n), contiguous
  std::int64_t rows = 0, n = 0, k = 0;
  bool descending = false, median = false;
  std::int64_t* index = nullptr;
};

/// to[r, p] = the number of elements of the sorted row r that are < values[r, p] (`right`: <=); n for NaN.
struct SearchArgs {
  In sorted{};  ///< (rows, n), or one row for all rows of values
  In values{};  ///< (rows, m), of the same dtype: f32, f64 or i64
  std::int64_t rows = 0, n = 0, m = 0;
  bool one_row = false, right = false;
  std::int64_t* to = nullptr;
};

/// flags[p] = x[p] is not 0; `changes`: p is 0 or x[p] differs from x[p - 1]. flags are bools.
struct FlagArgs {
  In x{};
  std::int64_t count = 0;
  bool changes = false;
  bool* flags = nullptr;
};

/// to[upto[p] - 1] = p for every p whose flag is set, where upto[p] is the number of set flags among the first p + 1.
/// group[p] = upto[p] - 1 for every p, unless `group` is null.
struct CompactArgs {
  const bool* flags = nullptr;
  const std::int64_t* upto = nullptr;
  std::int64_t count = 0;
  std::int64_t* to = nullptr;
  std::int64_t* group = nullptr;
};

/// to[p] = the number of the bin that contains x[p], of `bins` equal parts of [low, high]; `high` is in the last bin.
/// to[p] = `bins` if x[p] is outside of [low, high] or NaN. x is f32 or f64.
struct BinArgs {
  In x{};
  std::int64_t count = 0;
  double low = 0, high = 1;
  std::int64_t bins = 0;
  std::int64_t* to = nullptr;
};

}  // namespace binade
