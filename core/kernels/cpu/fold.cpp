#include <vector>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/widened.h"
#include "binade/core/one_rounding.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kRows = 1 << 12;  // elements of a line that one task folds

/// Stores one value, rounded once.
void store_one(double value, Out y) {
  dispatch_float(y.dtype, "fold", [&]<class T>(TypeTag<T>) { *static_cast<T*>(y.data) = store_once<T>(value); });
}
void store_one(std::int64_t value, Out y) {
  if (is_floating(y.dtype)) return store_one(static_cast<double>(value), y);
  store_whole(&value, y, 1);
}

/// Folds chunks of kRows elements of each line, and then the chunks' results in order. A task reads neighboring lines
/// together.
template <FoldKind kKind, class C>
void fold(const FoldArgs& a) {
  using Fold = Folding<kKind>;
  using Best = typename Fold::template Best<C>;
  const std::int64_t chunks = std::max<std::int64_t>(1, (a.count + kRows - 1) / kRows);
  const std::int64_t slices = (a.inner + kWidened - 1) / kWidened;
  std::vector<Best> partial(static_cast<std::size_t>(a.outer * chunks * a.inner));
  const auto best_of = [&](std::int64_t outer, std::int64_t chunk, std::int64_t inner) -> Best& {
    return partial[static_cast<std::size_t>((outer * chunks + chunk) * a.inner + inner)];
  };
  parallel_for(a.outer * chunks * slices, std::max<std::int64_t>(1, kRows / std::max<std::int64_t>(1, a.count)),
               [&](std::int64_t begin, std::int64_t end) {
                 C values[kWidened];
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t column = task % slices * kWidened, chunk = task / slices % chunks;
                   const std::int64_t o = task / slices / chunks, first = chunk * kRows;
                   const std::int64_t rows = std::min(kRows, a.count - first);
                   const std::int64_t columns = std::min(kWidened, a.inner - column);
                   const std::int64_t together = a.inner == 1 ? kWidened : 1;  // rows that are read at once
                   for (std::int64_t r = 0; r < rows; r += together) {
                     const std::int64_t n = a.inner == 1 ? std::min(together, rows - r) : columns;
                     widen_any(a.x.at((o * a.count + first + r) * a.inner + column), 1, values, n);
                     for (std::int64_t i = 0; i < n; ++i) {
                       Best& best = best_of(o, chunk, a.inner == 1 ? 0 : column + i);
                       best = Fold::combine(best, Best{values[i], first + r + (a.inner == 1 ? i : 0)});
                     }
                   }
                 }
               });
  parallel_for(a.outer * a.inner, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Best best = best_of(i / a.inner, 0, i % a.inner);
      for (std::int64_t chunk = 1; chunk < chunks; ++chunk)
        best = Fold::combine(best, best_of(i / a.inner, chunk, i % a.inner));
      if (a.y.data != nullptr) store_one(Fold::value_of(best), a.y.at(i));
      if (a.index != nullptr) a.index[i] = best.index;
    }
  });
}

template <FoldKind kKind>
void fold(const FoldArgs& a) {
  if (a.outer * a.inner == 0) return;
  is_floating(a.x.dtype) ? fold<kKind, double>(a) : fold<kKind, std::int64_t>(a);
}

double one(In x) {
  double value = 0;
  widen_any(x, 1, &value, 1);
  return value;
}

}  // namespace

void run_fold(const FoldArgs& a) {
  switch (a.kind) {
    case FoldKind::kSum: return fold<FoldKind::kSum>(a);
    case FoldKind::kProduct: return fold<FoldKind::kProduct>(a);
    case FoldKind::kMax: return fold<FoldKind::kMax>(a);
    case FoldKind::kMin: return fold<FoldKind::kMin>(a);
  }
}

void run_product_gradient(const ProductGradientArgs& a) {
  parallel_for(a.outer * a.inner, std::max<std::int64_t>(1, kRows / std::max<std::int64_t>(1, a.count)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t line = begin; line < end; ++line) {
                   const auto at = [&](std::int64_t r) {
                     return (line / a.inner * a.count + r) * a.inner + line % a.inner;
                   };
                   double others = one(a.gy.at(line));  // the product of the elements that are not 0
                   std::int64_t zeros = 0;
                   for (std::int64_t r = 0; r < a.count; ++r) {
                     const double x = one(a.x.at(at(r)));
                     if (x == 0)
                       ++zeros;
                     else
                       others *= x;
                   }
                   for (std::int64_t r = 0; r < a.count; ++r) {
                     const double x = one(a.x.at(at(r)));
                     store_one(product_of_others(others, x, zeros), a.gx.at(at(r)));
                   }
                 }
               });
}

}  // namespace binade::cpu
