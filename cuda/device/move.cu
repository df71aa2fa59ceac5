#include <limits>
#include <utility>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Copies whole elements, in the widest units (1 to 16 bytes) that the call allows.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// Copies `outer` rows of `inner` units. Index is a 32-bit type if 32 bits suffice, since 64-bit divisions would cost
/// more than the copy.
template <class Unit, class Index>
__global__ void copy_box(const Unit* from, std::int64_t from_stride, Unit* to, std::int64_t to_stride, Index inner,
                         Index count) {
  each_index(count, [&](Index i) {
    const Index run = i / inner, at = i - run * inner;
    to[run * to_stride + at] = from[run * from_stride + at];
  });
}

/// The extents and strides of the output's dimensions, the innermost first.
struct Dims {
  int rank = 0;
  std::int64_t extent[PermuteCopy::kMaxRank] = {}, from[PermuteCopy::kMaxRank] = {}, to[PermuteCopy::kMaxRank] = {};
};

template <class Unit, class Index>
__global__ void copy_permuted(const Unit* from, Unit* to, Dims dims, Index count) {
  each_index(count, [&](Index i) {
    Index rest = i;
    std::int64_t at = 0;
    for (int d = 0; d < dims.rank; ++d) {
      const Index next = rest / static_cast<Index>(dims.extent[d]);
      at += (rest - next * static_cast<Index>(dims.extent[d])) * dims.from[d];
      rest = next;
    }
    to[i] = from[at];
  });
}

/// Tiles that are read along one dimension and written along another, so that both accesses are contiguous.
inline constexpr int kTileRows = 8;  // rows of a tile per pass of the block
template <class Unit>
inline constexpr int kTile = sizeof(Unit) < 4 ? 64 : 32;

/// Transposes tiles. REQUIRES that dimension 0 of `dims` is contiguous in the output, and dimension 1 in the input.
template <class Unit>
__global__ void transpose(const Unit* from, Unit* to, Dims dims, std::int64_t tiles) {
  constexpr int kSide = kTile<Unit>;
  __shared__ Unit tile[kSide][kSide + 1];  // + 1: the elements of a column are in different banks
  const std::int64_t across = (dims.extent[0] + kSide - 1) / kSide, down = (dims.extent[1] + kSide - 1) / kSide;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    std::int64_t rest = t / across / down, from_at = 0, to_at = 0;
    for (int d = 2; d < dims.rank; ++d) {
      const std::int64_t next = rest / dims.extent[d], digit = rest - next * dims.extent[d];
      from_at += digit * dims.from[d];
      to_at += digit * dims.to[d];
      rest = next;
    }
    const std::int64_t first0 = t % across * kSide, first1 = t / across % down * kSide;
    for (int r = static_cast<int>(threadIdx.y); r < kSide; r += kTileRows)
      for (int c = static_cast<int>(threadIdx.x); c < kSide; c += kWarp)
        if (first0 + r < dims.extent[0] && first1 + c < dims.extent[1])
          tile[r][c] = from[from_at + (first0 + r) * dims.from[0] + first1 + c];
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.y); r < kSide; r += kTileRows)
      for (int c = static_cast<int>(threadIdx.x); c < kSide; c += kWarp)
        if (first1 + r < dims.extent[1] && first0 + c < dims.extent[0])
          to[to_at + (first1 + r) * dims.to[1] + first0 + c] = tile[c][r];
    __syncthreads();
  }
}

bool fits_32(std::int64_t count) { return count < std::numeric_limits<std::int32_t>::max() / 2; }

/// Returns the dimensions of `a` with more than one element; those that are contiguous on both sides are merged.
Dims dims_of(const PermuteCopy& a) {
  Dims dims;
  std::int64_t to = 1;
  for (int d = a.rank - 1; d >= 0; --d) {
    const std::int64_t extent = a.dims[d], from = a.from_stride[d];
    const int last = dims.rank - 1;
    if (extent == 1) continue;
    if (last >= 0 && from == dims.from[last] * dims.extent[last]) {
      dims.extent[last] *= extent;
    } else {
      dims.extent[dims.rank] = extent;
      dims.from[dims.rank] = from;
      dims.to[dims.rank] = to;
      ++dims.rank;
    }
    to *= extent;
  }
  return dims;
}

/// Permutes tensors whose innermost dimension is contiguous on both sides: copies rows in the widest units that all
/// strides allow.
void permute_runs(const PermuteCopy& a, Dims dims, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(a.element_bytes);
  std::uintptr_t multiples = reinterpret_cast<std::uintptr_t>(a.from) | reinterpret_cast<std::uintptr_t>(a.to) |
                             static_cast<std::uintptr_t>(dims.extent[0] * size);
  for (int d = 1; d < dims.rank; ++d) multiples |= static_cast<std::uintptr_t>(dims.from[d] * size);
  with_unit(multiples, [&]<class Unit>(Unit*) {
    constexpr std::int64_t kBytes = sizeof(Unit);
    dims.extent[0] = dims.extent[0] * size / kBytes;
    for (int d = 1; d < dims.rank; ++d) dims.from[d] = dims.from[d] * size / kBytes;
    const std::int64_t units = count * size / kBytes;
    const auto* from = static_cast<const Unit*>(a.from);
    auto* to = static_cast<Unit*>(a.to);
    const unsigned grid = grid_for(ceil_div(units, kThreads));
    if (fits_32(units))
      launch(copy_permuted<Unit, std::uint32_t>, grid, kThreads, 0, from, to, dims, static_cast<std::uint32_t>(units));
    else
      launch(copy_permuted<Unit, std::int64_t>, grid, kThreads, 0, from, to, dims, units);
  });
}

/// Permutes the other tensors in tiles: the dimension that is contiguous in the input becomes dimension 1, as
/// transpose() requires.
void permute_tiles(const PermuteCopy& a, Dims dims) {
  int neighbors = 1;
  while (dims.from[neighbors] != 1) ++neighbors;
  std::swap(dims.extent[1], dims.extent[neighbors]);
  std::swap(dims.from[1], dims.from[neighbors]);
  std::swap(dims.to[1], dims.to[neighbors]);
  with_unit(a.element_bytes, [&]<class Unit>(Unit*) {
    std::int64_t tiles = ceil_div(dims.extent[0], kTile<Unit>) * ceil_div(dims.extent[1], kTile<Unit>);
    for (int d = 2; d < dims.rank; ++d) tiles *= dims.extent[d];
    launch(transpose<Unit>, grid_for(tiles), dim3(kWarp, kTileRows), 0, static_cast<const Unit*>(a.from),
           static_cast<Unit*>(a.to), dims, tiles);
  });
}

void copy_straight(void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, context().stream), "copy");
}

}  // namespace

void run_box(const BoxCopy& a) {
  const auto size = static_cast<std::int64_t>(a.element_bytes);
  if (a.outer * a.inner == 0) return;
  if (a.outer == 1 || (a.from_stride == a.inner && a.to_stride == a.inner))
    return copy_straight(a.to, a.from, a.outer * a.inner * size);
  const std::uintptr_t multiples = reinterpret_cast<std::uintptr_t>(a.from) | reinterpret_cast<std::uintptr_t>(a.to) |
                                   static_cast<std::uintptr_t>(a.inner * size) |
                                   static_cast<std::uintptr_t>(a.from_stride * size) |
                                   static_cast<std::uintptr_t>(a.to_stride * size);
  with_unit(multiples, [&]<class Unit>(Unit*) {
    constexpr std::int64_t kBytes = sizeof(Unit);
    const std::int64_t inner = a.inner * size / kBytes, count = a.outer * inner;
    const std::int64_t from_stride = a.from_stride * size / kBytes, to_stride = a.to_stride * size / kBytes;
    const auto* from = static_cast<const Unit*>(a.from);
    auto* to = static_cast<Unit*>(a.to);
    const unsigned grid = grid_for(ceil_div(count, kThreads));
    if (fits_32(count))
      launch(copy_box<Unit, std::uint32_t>, grid, kThreads, 0, from, from_stride, to, to_stride,
             static_cast<std::uint32_t>(inner), static_cast<std::uint32_t>(count));
    else
      launch(copy_box<Unit, std::int64_t>, grid, kThreads, 0, from, from_stride, to, to_stride, inner, count);
  });
}

void run_permute(const PermuteCopy& a) {
  std::int64_t count = 1;
  for (int d = 0; d < a.rank; ++d) count *= a.dims[d];
  if (count == 0) return;
  const Dims dims = dims_of(a);
  if (dims.rank == 0 || (dims.rank == 1 && dims.from[0] == 1))
    copy_straight(a.to, a.from, count * static_cast<std::int64_t>(a.element_bytes));
  else if (dims.from[0] == 1)
    permute_runs(a, dims, count);
  else
    permute_tiles(a, dims);
}

}  // namespace binade::cuda
