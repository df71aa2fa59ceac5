#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/rows.cuh"
#include "binade/cuda/device/sort.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 128;

/// Copies one row per block, in the widest units that all rows allow. If an index is out of range, all bits of its row
/// are set, which is NaN in every floating dtype.
template <class Unit>
__global__ void copy_rows(EmbeddingRowsArgs a, std::int64_t units, std::int64_t pitch_units, FaultNote fault) {
  for (std::int64_t i = blockIdx.x; i < a.count; i += gridDim.x) {
    const std::int64_t index = a.indices[i];
    const bool bad = index < 0 || index >= a.rows;
    if (bad && threadIdx.x == 0) note_fault(fault, a.call, i, index);
    const Unit* from = static_cast<const Unit*>(a.weight.data) + (bad ? 0 : index * pitch_units);
    Unit* to = static_cast<Unit*>(a.y.data) + i * units;
    Unit nan;
    memset(&nan, 0xff, sizeof nan);
    for (std::int64_t u = threadIdx.x; u < units; u += blockDim.x) to[u] = bad ? nan : from[u];
  }
}

/// Writes the indices as sort keys. Indices out of range become one key that is larger than all others.
__global__ void write_keys(const std::int64_t* indices, std::int64_t count, std::int64_t rows, std::uint32_t* keys) {
  each_index(count, [&](std::int64_t i) {
    keys[i] = static_cast<std::uint32_t>(indices[i] < 0 || indices[i] >= rows ? rows : indices[i]);
  });
}

/// Positions are sorted by index and cut into chunks. A run is a sequence of positions with the same index. One block
/// adds the gradients of one run within one chunk, in position order. If a run continues in other chunks, the sums of
/// its chunks (parts) are added in chunk order. Therefore a row that is looked up thousands of times does not occupy
/// one block for long, and the sums depend on the indices alone.
constexpr std::int64_t kChunk = 64;

/// The lookups sorted by row of the table: `keys` are the rows, `positions` the indices into gy.
struct Lookups {
  const std::uint32_t *keys, *positions;
  std::int64_t count;
  __device__ bool begins_run(std::int64_t i) const { return i == 0 || keys[i - 1] != keys[i]; }
  __device__ bool ends_run(std::int64_t i) const { return i + 1 >= count || keys[i + 1] != keys[i]; }
};

/// Returns the index of the part for a run that begins (or continues from the previous chunk) at position i. At most
/// two runs of a chunk extend beyond it: the first, if it began earlier, and the last.
__device__ std::int64_t part_of(std::int64_t i) { return 2 * (i / kChunk) + (i % kChunk == 0 ? 0 : 1); }

/// Adds a row's complete sum to gw.
template <class C, int V>
__device__ void store_sum(const EmbeddingGradientArgs& a, std::int64_t key, std::int64_t c, const C (&sum)[V],
                          AmaxObserver& amax) {
  C current[V];
  load_vector({a.gw.data, a.gw.dtype}, key * a.cols + c, current);
#pragma unroll
  for (int e = 0; e < V; ++e) {
    current[e] += sum[e];
    amax.add(current[e]);
  }
  store_vector(a.gw, key * a.cols + c, current);
}

/// Sums the gradients of one run of a chunk per block. If the run does not extend beyond the chunk, adds the sum to gw;
/// otherwise stores it in parts (2 chunks, cols) of C.
template <class C, int V>
__global__ void __launch_bounds__(kThreads)
    add_rows(EmbeddingGradientArgs a, Lookups lookups, C* parts, std::uint32_t* words) {
  AmaxObserver amax(words, a.gw.dtype);
  for (std::int64_t i = blockIdx.x; i < a.count; i += gridDim.x) {
    const std::uint32_t key = lookups.keys[i];
    const bool begins = lookups.begins_run(i);
    if (key >= a.rows || (!begins && i % kChunk != 0)) continue;
    const std::int64_t next = (i / kChunk + 1) * kChunk, most = next < a.count ? next : a.count;
    std::int64_t end = i + 1;
    while (end < most && lookups.keys[end] == key) ++end;
    const bool whole = begins && lookups.ends_run(end - 1);
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * V; c < a.cols; c += kThreads * V) {
      C sum[V] = {};
#pragma unroll 4
      for (std::int64_t t = i; t < end; ++t) {
        C gy[V];
        load_vector(a.gy, lookups.positions[t] * a.cols + c, gy);
#pragma unroll
        for (int e = 0; e < V; ++e) sum[e] += gy[e];
      }
      if (whole)
        store_sum(a, key, c, sum, amax);
      else
        store_vector({parts, kDTypeOf<C>}, part_of(i) * a.cols + c, sum);
    }
  }
  amax.publish();
}

/// Adds all parts of a run that begins in a chunk and continues in the next one, with one block per chunk.
template <class C, int V>
__global__ void __launch_bounds__(kThreads)
    add_parts(EmbeddingGradientArgs a, Lookups lookups, const C* parts, std::uint32_t* words) {
  AmaxObserver amax(words, a.gw.dtype);
  const std::int64_t first = blockIdx.x * kChunk, last = first + kChunk - 1;
  const std::uint32_t key = lookups.keys[last];
  const bool from_first = lookups.keys[first] == key;
  if (key < a.rows && !lookups.ends_run(last) && (!from_first || lookups.begins_run(first)))
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * V; c < a.cols; c += kThreads * V) {
      C sum[V];
      load_vector({parts, kDTypeOf<C>}, (2 * blockIdx.x + (from_first ? 0 : 1)) * a.cols + c, sum);
#pragma unroll 4
      for (std::int64_t i = first + kChunk; i < a.count && lookups.keys[i] == key; i += kChunk) {
        C part[V];
        load_vector({parts, kDTypeOf<C>}, part_of(i) * a.cols + c, part);
#pragma unroll
        for (int e = 0; e < V; ++e) sum[e] += part[e];
      }
      store_sum(a, key, c, sum, amax);
    }
  amax.publish();
}

template <class C, int V>
void add_gradients(const EmbeddingGradientArgs& call, const Lookups& lookups) {
  const std::int64_t chunks = call.count / kChunk;  // whole chunks; no run continues after the last chunk
  const Buffer<C> parts(2 * ceil_div(call.count, kChunk) * call.cols);
  launch(add_rows<C, V>, grid_for(call.count), kThreads, 0, call, lookups, parts.data(), context().amax_words);
  if (chunks > 0)
    launch(add_parts<C, V>, static_cast<unsigned>(chunks), kThreads, 0, call, lookups, parts.data(),
           context().amax_words);
}

}  // namespace

void run_embedding_rows(const EmbeddingRowsArgs& call) {
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

void run_embedding_gradient(const EmbeddingGradientArgs& call) {
  const auto bytes = static_cast<std::size_t>(call.rows * call.cols) * size_of(call.gw.dtype);
  if (!call.accumulate && bytes > 0) check(cudaMemsetAsync(call.gw.data, 0, bytes, context().stream), "cudaMemset");
  if (call.count * call.cols == 0 || call.rows == 0) return;
  if (call.count >> 31 != 0 || call.rows >> 31 != 0)
    throw Failure(Status::kUnsupported, "more than 2^31 indices or rows of an embedding");
  PositionSort sorted(call.count);
  launch(write_keys, grid_for(ceil_div(call.count, kThreads)), kThreads, 0, call.indices, call.count, call.rows,
         sorted.keys());
  sorted.sort(static_cast<std::uint32_t>(call.rows));
  const Lookups lookups{sorted.sorted_keys(), sorted.positions(), call.count};
  if (call.gw.dtype == DType::f64) return add_gradients<double, 1>(call, lookups);
  if (call.cols % kPack == 0 && packs(call.gy.data, call.gy.dtype) && packs(call.gw.data, call.gw.dtype))
    return add_gradients<float, kPack>(call, lookups);
  add_gradients<float, 1>(call, lookups);
}

}  // namespace binade::cuda
