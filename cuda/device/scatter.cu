#include "binade/core/kernels/scatter_terms.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/sort.cuh"
#include "binade/cuda/device/value.cuh"

/// Combines values at positions that an index tensor names. Contributions are sorted by their target, and those of one
/// target by position. One thread combines the contributions of a target in this order, so the bits are those of the
/// CPU (decision 0066).
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// Contributions sorted by target. Those with an index out of range come last and have the key `none`.
struct Terms {
  const std::uint32_t *targets, *positions;
  std::int64_t count;
  std::uint32_t none;

  __device__ bool begins(std::int64_t t) const {
    return targets[t] != none && (t == 0 || targets[t - 1] != targets[t]);
  }
  /// Calls f(position) for the contributions of the target whose first contribution is t.
  template <class F>
  __device__ void each(std::int64_t t, F&& f) const {
    for (const std::uint32_t target = targets[t]; t < count && targets[t] == target; ++t) f(positions[t]);
  }
};

__global__ void write_targets(IndexGrid g, std::uint32_t none, std::uint32_t* keys, FaultNote fault) {
  each_index(g.numel(), [&](std::int64_t p) {
    const std::int64_t row = p / g.inner, i = p - row * g.inner, o = row / g.count, j = row - o * g.count;
    const std::int64_t index = g.at(o, j, i);
    keys[p] = g.inside(index) ? static_cast<std::uint32_t>(g.base(o, i) + index * g.step) : none;
    if (!g.inside(index) && g.call != 0 && (!g.by_row || (o == 0 && i == 0)))
      note_fault(fault, g.call, g.by_row ? j : p, index);
  });
}

/// If an index is out of range, sets all bits of the first element, which is NaN in every floating dtype.
__global__ void mark_bad(Terms terms, unsigned char* into, int bytes) {
  if (threadIdx.x == 0 && terms.targets[terms.count - 1] == terms.none)
    for (int b = 0; b < bytes; ++b) into[b] = 0xff;
}

template <class T>
__global__ void combine(ScatterArgs a, Terms terms) {
  const auto* source = static_cast<const T*>(a.source);
  auto* into = static_cast<T*>(a.into);
  each_index(terms.count, [&](std::int64_t t) {
    if (!terms.begins(t)) return;
    T& to = into[terms.targets[t]];
    T value = a.include_self ? to : scatter_start<T>(a.how);
    std::int64_t number = a.include_self ? 1 : 0;
    terms.each(t, [&](std::uint32_t p) {
      value = scatter_combined(a.how, value, source[a.one_source ? 0 : p]);
      ++number;
    });
    to = a.how == Scattering::kMean ? scatter_mean(value, number) : value;
  });
}

/// Copies the bits of any dtype; the last contribution to a target stays.
template <class E>
__global__ void assign(ScatterArgs a, Terms terms) {
  each_index(terms.count, [&](std::int64_t t) {
    if (!terms.begins(t)) return;
    std::uint32_t last = 0;
    terms.each(t, [&](std::uint32_t p) { last = p; });
    static_cast<E*>(a.into)[terms.targets[t]] = static_cast<const E*>(a.source)[a.one_source ? 0 : last];
  });
}

template <class T>
__device__ T value_at(const void* values, std::int64_t i) {
  return values != nullptr ? static_cast<const T*>(values)[i] : T(0);
}

template <class T>
__global__ void gradients(ScatterGradientArgs a, Terms terms) {
  auto *gx = static_cast<T*>(a.gx), *gsource = static_cast<T*>(a.gsource);
  each_index(terms.count, [&](std::int64_t t) {
    if (!terms.begins(t)) return;
    const std::uint32_t target = terms.targets[t];
    const T gy = value_at<T>(a.gy, target), result = value_at<T>(a.y, target), self = value_at<T>(a.x, target);
    if (a.how == Scattering::kAssign) {
      std::uint32_t last = 0;
      terms.each(t, [&](std::uint32_t p) {
        if (gsource != nullptr) gsource[p] = T(0);
        last = p;
      });
      if (gsource != nullptr) gsource[last] = gy;
      if (gx != nullptr) gx[target] = T(0);
      return;
    }
    ScatterTotals<T> totals;
    if (a.include_self) totals.add(a.how, self, result);
    terms.each(t, [&](std::uint32_t p) { totals.add(a.how, value_at<T>(a.source, p), result); });
    if (gsource != nullptr)
      terms.each(t,
                 [&](std::uint32_t p) { gsource[p] = totals.gradient(a.how, value_at<T>(a.source, p), result, gy); });
    if (gx != nullptr) gx[target] = a.include_self ? totals.gradient(a.how, self, result, gy) : T(0);
  });
}

/// Returns the largest element number that the grid refers to.
std::int64_t largest_target(const IndexGrid& g) {
  std::int64_t most = (g.extent - 1) * g.step;
  if (!g.partial) return g.outer * g.extent * g.step - 1;
  for (int d = 0; d < g.rank; ++d) most += (g.dims[d] - 1) * g.strides[d];
  return most;
}

/// Calls f(terms, grid) with the contributions sorted by target.
template <class F>
void with_terms(const IndexGrid& g, F&& f) {
  const std::int64_t count = g.numel(), none = largest_target(g) + 1;
  if (count >> 31 != 0 || none >> 31 != 0) throw Failure(Status::kUnsupported, "more than 2^31 elements of a scatter");
  PositionSort sorted(count);
  const unsigned grid = grid_for(ceil_div(count, kThreads));
  launch(write_targets, grid, kThreads, 0, g, static_cast<std::uint32_t>(none), sorted.keys(), context().fault);
  sorted.sort(static_cast<std::uint32_t>(none));
  f(Terms{sorted.sorted_keys(), sorted.positions(), count, static_cast<std::uint32_t>(none)}, grid);
}

}  // namespace

void run_scatter(const ScatterArgs& a) {
  if (a.grid.numel() == 0) return;
  with_terms(a.grid, [&](const Terms& terms, unsigned grid) {
    const auto run = [&](auto* kernel) { launch(kernel, grid, kThreads, 0, a, terms); };
    const int bytes = static_cast<int>(size_of(a.dtype));
    if (a.how == Scattering::kAssign) {
      switch (bytes) {
        case 1: run(assign<std::uint8_t>); break;
        case 2: run(assign<std::uint16_t>); break;
        case 4: run(assign<std::uint32_t>); break;
        default: run(assign<std::uint64_t>); break;
      }
    } else {
      switch (a.dtype) {
        case DType::f32: run(combine<float>); break;
        case DType::f64: run(combine<double>); break;
        case DType::i64: run(combine<std::int64_t>); break;
        case DType::i32: run(combine<std::int32_t>); break;
        case DType::u8: run(combine<std::uint8_t>); break;
        case DType::boolean: run(combine<bool>); break;
        default: throw Failure(Status::kUnsupported, "a scatter of halves");
      }
    }
    if (is_floating(a.dtype)) launch(mark_bad, 1, kWarp, 0, terms, static_cast<unsigned char*>(a.into), bytes);
  });
}

void run_scatter_gradient(const ScatterGradientArgs& a) {
  if (a.grid.numel() == 0) return;
  with_terms(a.grid, [&](const Terms& terms, unsigned grid) {
    if (a.dtype == DType::f64)
      launch(gradients<double>, grid, kThreads, 0, a, terms);
    else
      launch(gradients<float>, grid, kThreads, 0, a, terms);
  });
}

}  // namespace binade::cuda
