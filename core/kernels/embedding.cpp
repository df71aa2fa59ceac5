#include "binade/core/kernels/embedding.h"

#include <algorithm>

#include "binade/core/kernels/lanes.h"
#include "binade/core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class T>
void sum_tokens(const EmbeddingGradient& a, std::int64_t row, AmaxObserver& amax) {
  using C = Compute<T>;
  C* gw = static_cast<C*>(a.gw) + row * a.cols;
  const T* gy = static_cast<const T*>(a.gy);
  const std::int64_t begin = a.begin[row], end = a.begin[row + 1];
  if (a.accumulate && begin == end) return;
  // Nothing but its token tells where the next row's first gradient lies.
  const T* next = end < a.begin[a.rows] ? gy + a.tokens[end] * a.cols : nullptr;
  put_row(gw, a.cols, amax, [&](std::int64_t c, auto part) {
    if (next != nullptr) __builtin_prefetch(next + c);
    Wide<T> sum{};
    for (std::int64_t t = begin; t < end; ++t) sum += get(gy + a.tokens[t] * a.cols + c, part);
    return a.accumulate ? get(static_cast<const C*>(gw) + c, part) + sum : sum;
  });
}

void gradient(const EmbeddingGradient& a) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, a.cols));
  dispatch_float(a.gy_dtype, "embedding", [&]<class T>(TypeTag<T>) {
    parallel_for(a.rows, grain, [&](std::int64_t first, std::int64_t end) {
      AmaxObserver amax(kDTypeOf<Compute<T>>);
      for (std::int64_t row = first; row < end; ++row) sum_tokens<T>(a, row, amax);
    });
  });
}

}  // namespace

const EmbeddingKernels& embedding_kernels() {
  static constexpr EmbeddingKernels kernels{&gradient};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
