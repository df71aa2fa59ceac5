#include <string>

#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/products.cuh"

/// Products. On a GPU, a library computes most of them (libraries.cuh). The kernel of this file computes the others
/// (f64, irregular batches, unusual layouts), all products if there is no library, and the reference results in tests
/// of the library.
namespace binade::cuda {
namespace {

constexpr int kTile = 64;   // rows and columns of a tile, which one block computes
constexpr int kDepth = 16;  // steps of k in shared memory at a time
constexpr int kSide = 4;    // rows and columns of a tile that one thread computes
constexpr int kThreads = (kTile / kSide) * (kTile / kSide);
constexpr int kLoads = kTile * kDepth / kThreads;
constexpr int kPitch = kTile + 4;  // values between rows in shared memory: keeps 16-byte reads aligned, and spreads the
                                   // writes of a transposed tile over the banks

/// One operand as a matrix (lines, k), whose lines are rows of A or columns of B.
struct Operand {
  const void* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t line = 0, step = 0;  ///< elements between lines, and between steps of k
  BatchOffsets batch;
};

/// The operands of a batch of products, the division of k, and what is done with the sums.
struct Task {
  Operand a, b;
  std::int64_t k = 0, batch = 0;
  std::int64_t chunks = 1, depth = 0;  ///< k is cut into chunks of `depth`
  Finish finish;
  void* partial = nullptr;  ///< with more than one chunk: sums (chunks, batch, m, n)
};

constexpr int kResults = kTile + 1;  // values between rows of the results in shared memory
static_assert(kTile * kResults <= 4 * kDepth * kPitch);

template <class C>
struct alignas(16) Plane {
  C at[kDepth][kPitch];
};

/// The part of a tile (kTile lines, kDepth steps of k) that one thread moves from device memory to shared memory.
/// Neighboring threads load neighboring elements.
template <class T>
struct Tile {
  using C = Compute<T>;
  T value[kLoads];

  __device__ static void place(const Operand& x, int load, int& line, int& k) {
    const int i = load * kThreads + static_cast<int>(threadIdx.x);
    if (x.step == 1) {
      line = i / kDepth;
      k = i % kDepth;
    } else {
      line = i % kTile;
      k = i / kTile;
    }
  }
  __device__ void fetch(const Operand& x, const T* from, std::int64_t first_line, std::int64_t first_k,
                        std::int64_t end_k) {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      int line, k;
      place(x, load, line, k);
      const bool in_range = first_line + line < x.lines && first_k + k < end_k;
      value[load] = in_range ? from[(first_line + line) * x.line + (first_k + k) * x.step] : T{};
    }
  }
  __device__ void put(const Operand& x, Plane<C>& to) const {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      int line, k;
      place(x, load, line, k);
      to.at[k][line] = binade::load(value[load]);
    }
  }
};

/// Computes products. Each block computes tiles of 64 x 64; a thread holds 4 x 4 sums, each added in the order of k.
/// Double-buffered: the next tile is fetched while this one is multiplied.
template <class T>
__global__ void __launch_bounds__(kThreads) multiply_tiles(Task task) {
  using C = Compute<T>;
  __shared__ Plane<C> tiles[4];
  Plane<C>*const a_tile = tiles, *const b_tile = tiles + 2;
  C* const results = &tiles[0].at[0][0];  // (kTile, kResults); overwrites the tiles when they are no longer needed
  const std::int64_t m = task.a.lines, n = task.b.lines;
  const std::int64_t row_tiles = (m + kTile - 1) / kTile, column_tiles = (n + kTile - 1) / kTile;
  const std::int64_t work = row_tiles * column_tiles * task.chunks * task.batch;
  const int row = static_cast<int>(threadIdx.x) / (kTile / kSide) * kSide;
  const int column = static_cast<int>(threadIdx.x) % (kTile / kSide) * kSide;
  AmaxObserver amax(task.finish.words, task.finish.y.dtype);

  for (std::int64_t at = blockIdx.x; at < work; at += gridDim.x) {
    const std::int64_t column_tile = at % column_tiles, row_tile = at / column_tiles % row_tiles;
    const std::int64_t chunk = at / column_tiles / row_tiles % task.chunks;
    const std::int64_t product = at / column_tiles / row_tiles / task.chunks;
    const T* a = static_cast<const T*>(task.a.data) + task.a.batch.at(product);
    const T* b = static_cast<const T*>(task.b.data) + task.b.batch.at(product);
    const std::int64_t first_row = row_tile * kTile, first_column = column_tile * kTile;
    const std::int64_t begin = chunk * task.depth;
    const std::int64_t end = begin + task.depth < task.k ? begin + task.depth : task.k;

    C sums[kSide][kSide] = {};
    Tile<T> next_a, next_b;
    next_a.fetch(task.a, a, first_row, begin, end);
    next_b.fetch(task.b, b, first_column, begin, end);
    int buffer = 0;
    for (std::int64_t k = begin; k < end; k += kDepth, buffer ^= 1) {
      next_a.put(task.a, a_tile[buffer]);
      next_b.put(task.b, b_tile[buffer]);
      __syncthreads();  // one barrier per tile is enough: no thread can write a buffer while another still reads it
      if (k + kDepth < end) {
        next_a.fetch(task.a, a, first_row, k + kDepth, end);
        next_b.fetch(task.b, b, first_column, k + kDepth, end);
      }
#pragma unroll
      for (int step = 0; step < kDepth; ++step) {
        const auto& x = *reinterpret_cast<const Quad<C>*>(&a_tile[buffer].at[step][row]);
        const auto& y = *reinterpret_cast<const Quad<C>*>(&b_tile[buffer].at[step][column]);
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
#pragma unroll
          for (int j = 0; j < kSide; ++j) sums[i][j] += x.value[i] * y.value[j];
        }
      }
    }
    __syncthreads();  // all threads have read their tiles
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) results[(row + i) * kResults + column + j] = sums[i][j];
    }
    __syncthreads();
    // Neighboring threads store neighboring elements.
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) {
      const std::int64_t r = first_row + i / kTile, c = first_column + i % kTile;
      if (r >= m || c >= n) continue;
      const C sum = results[i / kTile * kResults + i % kTile];
      if (task.chunks > 1)
        static_cast<C*>(task.partial)[((chunk * task.batch + product) * m + r) * n + c] = sum;
      else
        finish_one<C>(task.finish, task.finish.batch.at(product) + r * task.finish.row + c, c, sum, amax);
    }
    __syncthreads();  // all threads have read before the next work item writes
  }
  if (task.chunks == 1) amax.publish();
}

/// Returns the number of chunks into which k is cut. It depends on sizes alone. Without cuts, a product with few
/// outputs and a long k would leave most of the device idle.
std::int64_t chunks_of(std::int64_t tiles, std::int64_t k) {
  constexpr std::int64_t kShortest = 256, kEnoughTiles = 256, kMostChunks = 64;
  const std::int64_t wanted = ceil_div(kEnoughTiles, tiles), possible = k / kShortest;
  const std::int64_t chunks = wanted < possible ? wanted : possible;
  return chunks < 2 ? 1 : chunks < kMostChunks ? chunks : kMostChunks;
}

void multiply(const Task& task, DType in) {
  const std::int64_t m = task.a.lines, n = task.b.lines;
  const unsigned grid = grid_for(ceil_div(m, kTile) * ceil_div(n, kTile) * task.chunks * task.batch);
  switch (in) {
    case DType::f64: return launch(multiply_tiles<double>, grid, kThreads, 0, task);
    case DType::f16: return launch(multiply_tiles<float16>, grid, kThreads, 0, task);
    case DType::bf16: return launch(multiply_tiles<bfloat16>, grid, kThreads, 0, task);
    default: return launch(multiply_tiles<float>, grid, kThreads, 0, task);
  }
}

/// The offsets of a batch in the form that kernels read: a stride, or an array that was uploaded to the device.
class DeviceBatchOffsets {
 public:
  DeviceBatchOffsets(const std::int64_t* offsets, std::int64_t batch)
      : even_(evenly_spaced(offsets, batch, stride_)), buffer_(offsets, even_ ? 0 : batch) {}
  BatchOffsets offsets() const { return {stride_, even_ ? nullptr : buffer_.data()}; }

 private:
  std::int64_t stride_ = 0;
  bool even_;
  Buffer<std::int64_t> buffer_;
};

template <class C>
void multiply_chunks(Task& task, DType in) {
  const std::int64_t m = task.a.lines, n = task.b.lines, size = task.batch * m * n;
  const Buffer<C> partial(task.chunks * size);
  task.partial = partial.data();
  multiply(task, in);
  finish_sums(task.finish,
              {.from = {partial.data(), kDTypeOf<C>},
               .row = n,
               .batch = {.stride = m * n},
               .chunks = task.chunks,
               .chunk = size},
              task.batch, m, n);
}

}  // namespace

void own_gemm(const GemmArgs& g) {
  const DeviceBatchOffsets a(g.a_offsets, g.batch), b(g.b_offsets, g.batch), c(g.c_offsets, g.batch);
  Task task{.a = {g.a, g.m, g.a_row, g.a_col, a.offsets()},
            .b = {g.b, g.n, g.b_col, g.b_row, b.offsets()},
            .k = g.k,
            .batch = g.batch,
            .chunks = chunks_of(ceil_div(g.m, kTile) * ceil_div(g.n, kTile) * g.batch, g.k),
            .finish = finish_of(g)};
  task.finish.batch = c.offsets();
  task.depth = ceil_div(ceil_div(g.k, task.chunks), kDepth) * kDepth;
  if (task.chunks == 1) return multiply(task, g.in);
  return g.in == DType::f64 ? multiply_chunks<double>(task, g.in) : multiply_chunks<float>(task, g.in);
}

void run_gemm(const GemmArgs& g) {
  if (g.m <= 0 || g.n <= 0 || g.batch <= 0) return;
  if (gemm_by_library(g)) return;
  if (g.derivative_of != Activation::kNone) {
    GemmArgs product = g;
    product.derivative_of = Activation::kNone;
    run_gemm(product);
    return run_activation_backward({g.derivative_of, g.out, g.derivative_at, g.c, g.c, g.m, g.n});
  }
  if (g.in != DType::u8) return own_gemm(g);
  if (!plan_gate().is_active())
    add_note_once("8-bit product " + std::to_string(g.m) + " x " + std::to_string(g.n) + " x " + std::to_string(g.k) +
                  ": multiplied in bf16: the library has no form for it");
  gemm_in_bf16_of_codes(g, run_gemm);
}

}  // namespace binade::cuda
