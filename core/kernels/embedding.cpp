#include "core/kernels/embedding.h"

#include <algorithm>

#include "core/kernels/lanes.h"
#include "core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class T>
void sum_tokens(const EmbeddingGradient& a, std::int64_t i) {
  using C = Compute<T>;
  C* gw = static_cast<C*>(a.gw) + a.row[i] * a.cols;
  const T* gy = static_cast<const T*>(a.gy);
  Seen seen(kDTypeOf<C>);
  each_group<T>(a.cols, [&](std::int64_t c, auto part) {
    Wide<T> sum{};
    for (std::int64_t t = a.begin[i]; t < a.begin[i + 1]; ++t) sum += get(gy + a.tokens[t] * a.cols + c, part);
    put(gw + c, get(static_cast<const C*>(gw) + c, part) + sum, part, seen);
  });
}

void gradient(const EmbeddingGradient& a) {
  dispatch_float(a.gy_dtype, "embedding",
                 [&]<class T>(TypeTag<T>) { parallel_blocks(a.rows, [&](std::int64_t i) { sum_tokens<T>(a, i); }); });
}

}  // namespace

const EmbeddingKernels& embedding_kernels() {
  static constexpr EmbeddingKernels kernels{&gradient};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
