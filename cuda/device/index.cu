#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Gathers elements at positions that an index tensor names, and converts indices per dimension to positions and back.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// If an index is out of range, all bits of its element are set, which is NaN in every floating dtype.
template <class E>
__global__ void gather_elements(GatherArgs a, FaultNote fault) {
  const IndexGrid& g = a.grid;
  const auto* from = static_cast<const E*>(a.from);
  auto* to = static_cast<E*>(a.to);
  each_index(g.numel(), [&](std::int64_t p) {
    const std::int64_t row = p / g.inner, i = p - row * g.inner, o = row / g.count, j = row - o * g.count;
    const std::int64_t index = g.at(o, j, i);
    if (g.inside(index)) {
      to[p] = from[g.base(o, i) + index * g.step];
      return;
    }
    if (g.call != 0 && (!g.by_row || (o == 0 && i == 0))) note_fault(fault, g.call, g.by_row ? j : p, index);
    to[p] = static_cast<E>(~E{0});
  });
}

/// An index out of range gives -1, which no other op accepts as a position.
__global__ void add_indices(LinearIndexArgs a, FaultNote fault) {
  each_index(a.count, [&](std::int64_t p) {
    std::int64_t sum = 0;
    bool good = true;
    for (int k = 0; k < a.indices; ++k) {
      std::int64_t offset = 0, rest = p;
      for (int d = a.rank - 1; d >= 0; --d) {
        offset += rest % a.dims[d] * a.index_strides[k][d];
        rest /= a.dims[d];
      }
      const std::int64_t index = a.index[k][offset];
      if (index < -a.extents[k] || index >= a.extents[k]) {
        note_fault(fault, a.call, p * a.indices + k, index);
        good = false;
        continue;  // adding it could overflow
      }
      sum += (index < 0 ? index + a.extents[k] : index) * a.strides[k];
    }
    a.to[p] = good ? sum : -1;
  });
}

__global__ void split_positions(CoordinatesArgs a) {
  each_index(a.count, [&](std::int64_t p) {
    std::int64_t rest = a.flat[p];
    for (int d = a.rank - 1; d >= 0; --d) {
      a.to[p * a.rank + d] = rest % a.dims[d];
      rest /= a.dims[d];
    }
  });
}

}  // namespace

void run_gather(const GatherArgs& a) {
  const std::int64_t count = a.grid.numel();
  if (count == 0) return;
  const unsigned grid = grid_for(ceil_div(count, kThreads));
  switch (a.element_bytes) {
    case 1: return launch(gather_elements<std::uint8_t>, grid, kThreads, 0, a, context().fault);
    case 2: return launch(gather_elements<std::uint16_t>, grid, kThreads, 0, a, context().fault);
    case 4: return launch(gather_elements<std::uint32_t>, grid, kThreads, 0, a, context().fault);
    default: return launch(gather_elements<std::uint64_t>, grid, kThreads, 0, a, context().fault);
  }
}

void run_linear_index(const LinearIndexArgs& a) {
  if (a.count > 0) launch(add_indices, grid_for(ceil_div(a.count, kThreads)), kThreads, 0, a, context().fault);
}

void run_coordinates(const CoordinatesArgs& a) {
  if (a.count > 0) launch(split_positions, grid_for(ceil_div(a.count, kThreads)), kThreads, 0, a);
}

}  // namespace binade::cuda
