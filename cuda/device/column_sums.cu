#include "cuda/device/calls.cuh"
#include "cuda/device/map.cuh"
#include "cuda/device/products.cuh"

/// What a linear layer needs beside products: the sums of a bias's gradient, and the derivative of its activation.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

struct Columns {
  Source x;
  std::int64_t rows = 0, columns = 0, row = 0;
  int across = 1;                      ///< threads side by side, a power of two; the rest of the block goes down
  std::int64_t chunks = 1, chunk = 0;  ///< rows are cut into chunks of `chunk`
  bool packed = false;
  void* sums = nullptr;  ///< (chunks, columns)
};

/// Sums of 8 columns a thread over a chunk of rows, then a tree over the threads that share the columns.
template <class C>
__global__ void __launch_bounds__(kThreads) sum_columns(Columns c) {
  __shared__ C shared[kThreads][kPack + 1];
  const int lane = static_cast<int>(threadIdx.x) % c.across, down = kThreads / c.across;
  const int first_row = static_cast<int>(threadIdx.x) / c.across;
  const std::int64_t blocks = (c.columns + c.across * kPack - 1) / (c.across * kPack);
  for (std::int64_t at = blockIdx.x; at < blocks * c.chunks; at += gridDim.x) {
    const std::int64_t chunk = at / blocks, column = (at - chunk * blocks) * c.across * kPack + lane * kPack;
    const std::int64_t end = (chunk + 1) * c.chunk < c.rows ? (chunk + 1) * c.chunk : c.rows;
    const bool whole = c.packed && column + kPack <= c.columns;
    C sums[kPack] = {};
    for (std::int64_t r = chunk * c.chunk + first_row; r < end; r += down) {
      if constexpr (sizeof(C) == sizeof(float))
        if (whole) {
          float x[kPack];
          load_pack(c.x.data, c.x.dtype, r * c.row + column, x);
#pragma unroll
          for (int k = 0; k < kPack; ++k) sums[k] += x[k];
          continue;
        }
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        if (column + k < c.columns) sums[k] += load_at<C>(c.x, r * c.row + column + k);
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) shared[threadIdx.x][k] = sums[k];
    for (int apart = down / 2; apart > 0; apart /= 2) {
      __syncthreads();
      if (first_row < apart)
#pragma unroll
        for (int k = 0; k < kPack; ++k) shared[threadIdx.x][k] += shared[threadIdx.x + apart * c.across][k];
    }
    __syncthreads();
    // One column a thread: neighbors write side by side.
    for (int i = static_cast<int>(threadIdx.x); i < c.across * kPack; i += kThreads) {
      const std::int64_t to = (at - chunk * blocks) * c.across * kPack + i;
      if (to < c.columns) static_cast<C*>(c.sums)[chunk * c.columns + to] = shared[i / kPack][i % kPack];
    }
    __syncthreads();  // read before the next piece of work writes
  }
}

template <class C>
void start(const Columns& c) {
  launch(sum_columns<C>, grid_for(ceil_div(c.columns, c.across * kPack) * c.chunks), kThreads, 0, c);
}

/// A block adds up to 16 rows a thread before rows are cut into chunks, whose sums are added as a matrix of their own;
/// all by the sizes alone.
template <class C>
void sum(const Source& x, std::int64_t rows, std::int64_t columns, std::int64_t row, void* sums) {
  constexpr std::int64_t kRowsOfThread = 16, kEnoughBlocks = 512;
  Columns c{.x = x, .rows = rows, .columns = columns, .row = row, .sums = sums};
  while (c.across < kWarp && c.across * kPack < columns) c.across *= 2;
  c.packed = row % kPack == 0 && packs(x.data, x.dtype);
  const std::int64_t blocks = ceil_div(columns, c.across * kPack);
  const std::int64_t possible = ceil_div(rows, kThreads / c.across * kRowsOfThread);
  const std::int64_t wanted = ceil_div(kEnoughBlocks, blocks);
  const std::int64_t chunks = possible < wanted ? possible : wanted;
  c.chunk = chunks > 1 ? ceil_div(rows, chunks) : rows;
  c.chunks = chunks > 1 ? ceil_div(rows, c.chunk) : 1;
  if (c.chunks == 1) return start<C>(c);
  const Buffer<C> partial(c.chunks * columns);
  c.sums = partial.data();
  start<C>(c);
  sum<C>({partial.data(), kDTypeOf<C>}, c.chunks, columns, columns, sums);
}

template <Activation kActivation>
struct Slope {
  template <class C>
  __device__ C operator()(const C (&x)[2], std::int64_t) const {
    switch (kActivation) {
      case Activation::kRelu: return x[1] * (x[0] <= C(0) ? C(0) : C(1));
      case Activation::kGelu: return x[1] * math::gelu_slope(x[0]);
      case Activation::kGeluTanh: return x[1] * math::gelu_tanh_slope(x[0]);
      default: return x[1];
    }
  }
};

}  // namespace

void run_column_sums(const ColumnSumsCall& call) {
  if (call.columns <= 0) return;
  const Source x{call.x, call.dtype};
  if (call.dtype == DType::f64) return sum<double>(x, call.rows, call.columns, call.row, call.sums);
  sum<float>(x, call.rows, call.columns, call.row, call.sums);
}

void run_activation_backward(const ActivationBackwardCall& call) {
  const Source in[] = {{call.z, call.dtype}, {call.gy, call.dtype}};
  const Target out{call.gz, call.dtype};
  const Walk walk = flat_walk(call.count, 3);
  switch (call.activation) {
    case Activation::kNone: return map<2>(Slope<Activation::kNone>{}, in, out, walk);
    case Activation::kRelu: return map<2>(Slope<Activation::kRelu>{}, in, out, walk);
    case Activation::kGelu: return map<2>(Slope<Activation::kGelu>{}, in, out, walk);
    case Activation::kGeluTanh: return map<2>(Slope<Activation::kGeluTanh>{}, in, out, walk);
  }
}

}  // namespace binade::cuda
