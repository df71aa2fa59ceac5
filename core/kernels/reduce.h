#pragma once

#include <cstdint>
#include <type_traits>

#include "binade/core/host_device.h"
#include "binade/core/kernels/elementwise.h"

namespace binade {

/// y = the sum (divided by `divisor`) or the largest of x over some dimensions. x is described as groups of neighboring
/// dimensions that are all reduced or all kept, outermost first; y has the kept ones, contiguous. If x is a channel
/// slice, its last dimension is a separate group, and rows are `pitch` elements apart; otherwise `pitch` is 0.
struct ReduceArgs {
  static constexpr int kMaxGroups = 8;
  bool largest = false;  ///< true: the largest element; false: the sum
  double divisor = 1;
  const std::int64_t* count = nullptr;  ///< divisor in device memory; null: `divisor`
  In x{};
  Out y{};
  int groups = 0;
  std::int64_t extents[kMaxGroups] = {};
  bool reduced[kMaxGroups] = {};
  std::int64_t pitch = 0;
};

/// out = x equals y ? g : 0, NaN being equal to NaN
struct MaxGradientArgs {
  Walk walk{};
  In in[3]{};  ///< x, y, g
  Out out{};
};

enum class FoldKind { kSum, kProduct, kMax, kMin };

/// y (outer, inner) = the sum, product, largest or smallest element of x (outer, count, inner) over the middle
/// dimension; both contiguous. Whole numbers are folded in i64, with wrapped sums and products, others in double
/// (decision 0065). kMax and kMin prefer NaN to numbers, and the first of equal elements. count = 0 gives 0 for
/// kSum and 1 for kProduct. kSum is for whole numbers only: ReduceArgs sums the others.
struct FoldArgs {
  FoldKind kind = FoldKind::kSum;
  In x{};
  Out y{};                        ///< no data: only the positions are wanted
  std::int64_t* index = nullptr;  ///< receives the position of the element that kMax or kMin took; may be null
  std::int64_t outer = 1, count = 0, inner = 1;
};

/// gx = gy times the product of the other elements along the middle dimension of x. It does not divide by an x of 0.
/// x and gx are (outer, count, inner), gy is (outer, inner); all are contiguous.
struct ProductGradientArgs {
  In x{}, gy{};
  Out gx{};
  std::int64_t outer = 1, count = 0, inner = 1;
};

/// Returns the product of all factors except x, given `product`, the product of the factors that are not 0, and the
/// number of zeros among the factors.
BINADE_HD double product_of_others(double product, double x, std::int64_t zeros) {
  if (zeros > 1 || (zeros == 1 && x != 0)) return 0 * product;
  return x == 0 ? product : product / x;
}

/// Combines two partial folds, in the same way on every device.
template <FoldKind kKind>
struct Folding {
  template <class C>
  struct Best {
    C value{};
    std::int64_t index = -1;  ///< -1: no element
  };
  /// Returns the fold of `a` and `b`, whose elements follow those of a.
  template <class C>
  BINADE_HD static Best<C> combine(const Best<C>& a, const Best<C>& b) {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    if constexpr (kKind == FoldKind::kSum || kKind == FoldKind::kProduct) {
      if constexpr (std::is_same_v<C, std::int64_t>) {
        const auto x = static_cast<std::uint64_t>(a.value), y = static_cast<std::uint64_t>(b.value);
        return {static_cast<C>(kKind == FoldKind::kSum ? x + y : x * y), a.index};
      } else {
        return {kKind == FoldKind::kSum ? a.value + b.value : a.value * b.value, a.index};
      }
    } else {
      const bool better = kKind == FoldKind::kMax ? b.value > a.value : b.value < a.value;
      return a.value == a.value && (better || b.value != b.value) ? b : a;
    }
  }
  template <class C>
  BINADE_HD static C value_of(const Best<C>& best) {
    return best.index < 0 ? C(kKind == FoldKind::kProduct ? 1 : 0) : best.value;
  }
};

namespace cpu {

/// Serial reductions of one kernel level. Accumulators are float, or double if x is f64.
struct ReduceLoops {
  /// *result = the reduction of n contiguous elements.
  void (*run)(In x, std::int64_t n, void* result);
  /// result[c] = the reduction of column c < cols over `rows` rows, `pitch` elements apart.
  void (*rows)(In x, std::int64_t rows, std::int64_t pitch, std::int64_t cols, void* result);
  /// a[i] = the reduction of a[i] and b[i]; of type double or float.
  void (*combine)(void* a, const void* b, std::int64_t n, bool is_double);
};

/// Loops of one kernel level.
struct ReductionKernels {
  ReduceLoops sum;
  ReduceLoops max;
  /// gx[i] = x[i] equals y[i * y_step] (NaN equals NaN) ? g[i * g_step] : 0.
  void (*max_gradient)(In x, In y, std::int64_t y_step, In g, std::int64_t g_step, Out gx, std::int64_t n);
};

}  // namespace cpu
}  // namespace binade
