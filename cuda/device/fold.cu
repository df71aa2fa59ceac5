#include <algorithm>
#include <optional>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Folds of single elements (FoldArgs). A thread folds a segment of a line; the partial results are folded in the same
/// way until one per line is left. The segments depend on the sizes alone, so the same shape gives the same bits.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSegment = 64;  // elements that one thread folds

template <FoldKind kKind, class C>
using Best = typename Folding<kKind>::template Best<C>;

/// The elements of x, or partial results if `partial` is not null.
template <FoldKind kKind, class C>
struct Source {
  In x;
  const Best<kKind, C>* partial;
  __device__ Best<kKind, C> operator()(std::int64_t i, std::int64_t position) const {
    if (partial != nullptr) return partial[i];
    return {load_at<C>(x, i), position};
  }
};

/// Folds (outer, count, inner) to (outer, segments, inner) in `partial`, or to y and index if there is one segment.
template <FoldKind kKind, class C>
__global__ void fold_segments(Source<kKind, C> from, std::int64_t outer, std::int64_t count, std::int64_t inner,
                              std::int64_t segments, Best<kKind, C>* partial, Out y, std::int64_t* index) {
  each_index(outer * segments * inner, [&](std::int64_t t) {
    const std::int64_t i = t % inner, segment = t / inner % segments, o = t / inner / segments;
    const std::int64_t first = segment * kSegment, end = first + kSegment < count ? first + kSegment : count;
    Best<kKind, C> best;
    for (std::int64_t r = first; r < end; ++r)
      best = Folding<kKind>::combine(best, from((o * count + r) * inner + i, r));
    if (partial != nullptr) {
      partial[t] = best;
      return;
    }
    if (y.data != nullptr) store_at(y.data, y.dtype, t, Folding<kKind>::value_of(best));
    if (index != nullptr) index[t] = best.index;
  });
}

template <FoldKind kKind, class C>
void fold(const FoldArgs& a) {
  if (a.outer * a.inner == 0) return;
  Source<kKind, C> from{a.x, nullptr};
  std::optional<Buffer<Best<kKind, C>>> partial[2];  // read and written alternately
  std::int64_t count = a.count;
  for (int turn = 0;; turn ^= 1) {
    const std::int64_t segments = std::max<std::int64_t>(1, ceil_div(count, kSegment)),
                       threads = a.outer * segments * a.inner;
    Best<kKind, C>* to = nullptr;
    if (segments > 1) {
      partial[turn].emplace(threads);
      to = partial[turn]->data();
    }
    launch(fold_segments<kKind, C>, grid_for(ceil_div(threads, kThreads)), kThreads, 0, from, a.outer, count, a.inner,
           segments, to, a.y, a.index);
    if (segments == 1) return;
    from.partial = to;
    count = segments;
  }
}

template <FoldKind kKind>
void fold(const FoldArgs& a) {
  is_floating(a.x.dtype) ? fold<kKind, double>(a) : fold<kKind, std::int64_t>(a);
}

__global__ void product_gradient(ProductGradientArgs a) {
  each_index(a.outer * a.inner, [&](std::int64_t line) {
    const std::int64_t first = line / a.inner * a.count * a.inner + line % a.inner;
    double others = load_at<double>(a.gy, line);  // gy times the product of the elements that are not 0
    std::int64_t zeros = 0;
    for (std::int64_t r = 0; r < a.count; ++r) {
      const double x = load_at<double>(a.x, first + r * a.inner);
      if (x == 0)
        ++zeros;
      else
        others *= x;
    }
    for (std::int64_t r = 0; r < a.count; ++r) {
      const std::int64_t i = first + r * a.inner;
      store_at(a.gx.data, a.gx.dtype, i, product_of_others(others, load_at<double>(a.x, i), zeros));
    }
  });
}

}  // namespace

void run_fold(const FoldArgs& call) {
  switch (call.kind) {
    case FoldKind::kSum: return fold<FoldKind::kSum>(call);
    case FoldKind::kProduct: return fold<FoldKind::kProduct>(call);
    case FoldKind::kMax: return fold<FoldKind::kMax>(call);
    case FoldKind::kMin: return fold<FoldKind::kMin>(call);
  }
}

void run_product_gradient(const ProductGradientArgs& call) {
  launch(product_gradient, grid_for(ceil_div(call.outer * call.inner, kThreads)), kThreads, 0, call);
}

}  // namespace binade::cuda
