#include "binade/core/kernels/embedding.h"

#include <algorithm>

#include "binade/core/kernels/lanes.h"
#include "binade/core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class T>
void sum_tokens(const EmbeddingGradientArgs& a, const std::int64_t* begin, const std::int64_t* tokens, std::int64_t row,
                AmaxObserver& amax) {
  using C = Compute<T>;
  C* gw = static_cast<C*>(a.gw.data) + row * a.cols;
  const T* gy = static_cast<const T*>(a.gy.data);
  const std::int64_t first = begin[row], end = begin[row + 1];
  if (a.accumulate && first == end) return;
  // The address of the next row's first gradient depends on its token, so hardware cannot prefetch it.
  const T* next = end < begin[a.rows] ? gy + tokens[end] * a.cols : nullptr;
  put_row(gw, a.cols, amax, [&](std::int64_t c, auto part) {
    if (next != nullptr) __builtin_prefetch(next + c);
    Wide<T> sum{};
    for (std::int64_t t = first; t < end; ++t) sum += get(gy + tokens[t] * a.cols + c, part);
    return a.accumulate ? get(static_cast<const C*>(gw) + c, part) + sum : sum;
  });
}

void gradient(const EmbeddingGradientArgs& a, const std::int64_t* begin, const std::int64_t* tokens) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, a.cols));
  dispatch_float(a.gy.dtype, "embedding", [&]<class T>(TypeTag<T>) {
    parallel_for(a.rows, grain, [&](std::int64_t first, std::int64_t end) {
      AmaxObserver amax(kDTypeOf<Compute<T>>);
      for (std::int64_t row = first; row < end; ++row) sum_tokens<T>(a, begin, tokens, row, amax);
    });
  });
}

}  // namespace

const EmbeddingKernels& embedding_kernels() {
  static constexpr EmbeddingKernels kernels{&gradient};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
