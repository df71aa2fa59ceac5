#include "cuda/device/calls.cuh"
#include "cuda/device/rows.cuh"
#include "cuda/device/seen.cuh"
#include "cuda/device/sort.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 128;

/// A block a row, moved in the widest units that all rows allow. Ones in every bit are NaN in every floating dtype.
template <class Unit>
__global__ void copy_rows(EmbeddingRowsCall a, std::int64_t units, std::int64_t pitch_units, FaultNote fault) {
  for (std::int64_t i = blockIdx.x; i < a.count; i += gridDim.x) {
    const std::int64_t index = a.indices[i];
    const bool bad = index < 0 || index >= a.rows;
    if (bad && threadIdx.x == 0) note_fault(fault, a.number, i, index);
    const Unit* from = static_cast<const Unit*>(a.weight.data) + (bad ? 0 : index * pitch_units);
    Unit* to = static_cast<Unit*>(a.y.data) + i * units;
    Unit nan;
    memset(&nan, 0xff, sizeof nan);
    for (std::int64_t u = threadIdx.x; u < units; u += blockDim.x) to[u] = bad ? nan : from[u];
  }
}

/// Indices out of range become one key behind all others.
__global__ void write_keys(const std::int64_t* indices, std::int64_t count, std::int64_t rows, std::uint32_t* keys) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    keys[i] = static_cast<std::uint32_t>(indices[i] < 0 || indices[i] >= rows ? rows : indices[i]);
}

/// A block a row that was looked up: the one at whose first position in sorted order it stands. Its positions are added
/// in their order, whatever the launch.
template <class C, int V>
__global__ void __launch_bounds__(kThreads)
    add_rows(EmbeddingGradientCall a, const std::uint32_t* keys, const std::uint32_t* positions, std::uint32_t* words) {
  Seen seen(words, a.gw.dtype);
  for (std::int64_t i = blockIdx.x; i < a.count; i += gridDim.x) {
    const std::uint32_t key = keys[i];
    if (key >= a.rows || (i > 0 && keys[i - 1] == key)) continue;
    std::int64_t end = i + 1;
    while (end < a.count && keys[end] == key) ++end;
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * V; c < a.cols; c += kThreads * V) {
      C sum[V] = {};
#pragma unroll 4
      for (std::int64_t t = i; t < end; ++t) {
        C gy[V];
        load_some(a.gy, positions[t] * a.cols + c, gy);
#pragma unroll
        for (int e = 0; e < V; ++e) sum[e] += gy[e];
      }
#pragma unroll
      for (int e = 0; e < V; ++e) seen.add(sum[e]);
      store_some(a.gw, key * a.cols + c, sum);
    }
  }
  seen.publish();
}

}  // namespace

void run_embedding_rows(const EmbeddingRowsCall& call) {
  if (call.count == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(call.y.dtype));
  const std::int64_t bytes = call.cols * size, pitch = call.pitch * size;
  const std::uintptr_t multiples = reinterpret_cast<std::uintptr_t>(call.weight.data) |
                                   reinterpret_cast<std::uintptr_t>(call.y.data) | static_cast<std::uintptr_t>(bytes) |
                                   static_cast<std::uintptr_t>(pitch);
  with_unit(multiples, [&]<class Unit>(Unit*) {
    constexpr std::int64_t kBytes = sizeof(Unit);
    launch(copy_rows<Unit>, grid_for(call.count), kThreads, 0, call, bytes / kBytes, pitch / kBytes, context().fault);
  });
}

void run_embedding_gradient(const EmbeddingGradientCall& call) {
  if (call.count * call.cols == 0 || call.rows == 0) return;
  if (call.count >> 31 != 0 || call.rows >> 31 != 0)
    throw Failure(Status::kUnsupported, "more than 2^31 indices or rows of an embedding");
  PositionSort sorted(call.count);
  launch(write_keys, grid_for(ceil_div(call.count, kThreads)), kThreads, 0, call.indices, call.count, call.rows,
         sorted.keys());
  sorted.sort(static_cast<std::uint32_t>(call.rows));
  const unsigned grid = grid_for(call.count);
  if (call.gw.dtype == DType::f64)
    launch(add_rows<double, 1>, grid, kThreads, 0, call, sorted.sorted_keys(), sorted.positions(), context().seen);
  else if (call.cols % kPack == 0 && packs(call.gy.data, call.gy.dtype) && packs(call.gw.data, call.gw.dtype))
    launch(add_rows<float, kPack>, grid, kThreads, 0, call, sorted.sorted_keys(), sorted.positions(), context().seen);
  else
    launch(add_rows<float, 1>, grid, kThreads, 0, call, sorted.sorted_keys(), sorted.positions(), context().seen);
}

}  // namespace binade::cuda
