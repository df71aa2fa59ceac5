#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"
#include "binade/cuda/device/products.cuh"

/// Kernels of a linear layer besides its products: column sums, which are the gradient of a bias, and the derivative of
/// an activation. If both are wanted, one pass computes them.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

template <Activation kActivation>
struct ActivationDerivative {
  template <class C>
  __device__ C operator()(const C (&x)[2], std::int64_t) const {
    switch (kActivation) {
      case Activation::kRelu: return x[1] * (x[0] <= C(0) ? C(0) : C(1));
      case Activation::kGelu: return x[1] * math::gelu_derivative(x[0]);
      case Activation::kGeluTanh: return x[1] * math::gelu_tanh_derivative(x[0]);
      default: return x[1];
    }
  }
};

/// Terms that are summed without a change: the values of x.
struct PlainTerms {
  In x;
  std::uint32_t* words = nullptr;
  __device__ DType stored() const { return DType::f64; }  // f64: these values are not observed

  bool packed() const { return packs(x.data, x.dtype); }
  __device__ void eight(std::int64_t at, float (&to)[kPack], AmaxObserver&) const {
    load_pack(x.data, x.dtype, at, to);
  }
  template <class C>
  __device__ C one(std::int64_t at, AmaxObserver&) const {
    return load_at<C>(x, at);
  }
};
/// Terms gz = gy activation'(z), which are summed, rounded and stored.
template <Activation kActivation>
struct DerivativeTerms {
  In z, gy;
  void* gz = nullptr;
  std::uint32_t* words = nullptr;
  ActivationDerivative<kActivation> derivative{};
  __device__ DType stored() const { return z.dtype; }

  bool packed() const { return packs(z.data, z.dtype) && packs(gy.data, gy.dtype) && packs(gz, z.dtype); }
  __device__ void eight(std::int64_t at, float (&to)[kPack], AmaxObserver& amax) const {
    float from[kPack];
    load_pack(z.data, z.dtype, at, from);
    load_pack(gy.data, gy.dtype, at, to);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const float both[2] = {from[k], to[k]};
      to[k] = derivative(both, at + k);
      amax.add(to[k]);
    }
    store_pack(gz, z.dtype, at, to);
#pragma unroll
    for (int k = 0; k < kPack; ++k) to[k] = as_stored(to[k]);
  }
  template <class C>
  __device__ C one(std::int64_t at, AmaxObserver& amax) const {
    const C both[2] = {load_at<C>(z, at), load_at<C>(gy, at)};
    const C y = derivative(both, at);
    amax.add(y);
    store_at(gz, z.dtype, at, y);
    return as_stored(y);
  }
  __device__ double as_stored(double y) const { return y; }
  __device__ float as_stored(float y) const {
    return z.dtype == DType::bf16  ? widened(narrowed<bfloat16>(y))
           : z.dtype == DType::f16 ? widened(narrowed<float16>(y))
                                   : y;
  }
};

/// A matrix whose columns are summed, and how the work is divided.
struct Columns {
  std::int64_t rows = 0, columns = 0, row = 0;
  int across = 1;                      ///< threads along the columns, a power of two; the others take rows
  std::int64_t chunks = 1, chunk = 0;  ///< rows are cut into `chunks` of `chunk` rows
  bool packed = false;
  void* sums = nullptr;  ///< (chunks, columns)
};

/// Sums 8 columns per thread over a chunk of rows, then combines the threads that share the columns.
template <class C, class Terms>
__global__ void __launch_bounds__(kThreads) sum_columns(Columns c, Terms terms) {
  __shared__ C shared[kThreads][kPack + 1];
  AmaxObserver amax(terms.words, terms.stored());
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
          terms.eight(r * c.row + column, x, amax);
#pragma unroll
          for (int k = 0; k < kPack; ++k) sums[k] += x[k];
          continue;
        }
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        if (column + k < c.columns) sums[k] += terms.template one<C>(r * c.row + column + k, amax);
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) shared[threadIdx.x][k] = sums[k];
    for (int distance = down / 2; distance > 0; distance /= 2) {
      __syncthreads();
      if (first_row < distance) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) shared[threadIdx.x][k] += shared[threadIdx.x + distance * c.across][k];
      }
    }
    __syncthreads();
    // One column per thread, so that neighboring threads write neighboring addresses.
    for (int i = static_cast<int>(threadIdx.x); i < c.across * kPack; i += kThreads) {
      const std::int64_t to = (at - chunk * blocks) * c.across * kPack + i;
      if (to < c.columns) static_cast<C*>(c.sums)[chunk * c.columns + to] = shared[i / kPack][i % kPack];
    }
    __syncthreads();  // all threads have read before the next work item writes
  }
  amax.publish();
}

template <class C, class Terms>
void start(const Columns& c, const Terms& terms) {
  launch(sum_columns<C, Terms>, grid_for(ceil_div(c.columns, c.across * kPack) * c.chunks), kThreads, 0, c, terms);
}

/// A block sums up to 16 rows per thread. More rows are cut into chunks, and the sums of the chunks, as a matrix, are
/// then summed in the same way. The cut depends on sizes alone.
template <class C, class Terms>
void sum(const Terms& terms, std::int64_t rows, std::int64_t columns, std::int64_t row, void* sums) {
  constexpr std::int64_t kRowsOfThread = 16, kEnoughBlocks = 512;
  Columns c{.rows = rows, .columns = columns, .row = row, .sums = sums};
  while (c.across < kWarp && c.across * kPack < columns) c.across *= 2;
  c.packed = row % kPack == 0 && terms.packed();
  const std::int64_t blocks = ceil_div(columns, c.across * kPack);
  const std::int64_t possible = ceil_div(rows, kThreads / c.across * kRowsOfThread);
  const std::int64_t wanted = ceil_div(kEnoughBlocks, blocks);
  const std::int64_t chunks = possible < wanted ? possible : wanted;
  c.chunk = chunks > 1 ? ceil_div(rows, chunks) : rows;
  c.chunks = chunks > 1 ? ceil_div(rows, c.chunk) : 1;
  if (c.chunks == 1) return start<C>(c, terms);
  const Buffer<C> partial(c.chunks * columns);
  c.sums = partial.data();
  start<C>(c, terms);
  sum<C>(PlainTerms{{partial.data(), kDTypeOf<C>}}, c.chunks, columns, columns, sums);
}

template <Activation kActivation>
void backward(const ActivationBackwardArgs& call) {
  const In z{call.z, call.dtype}, gy{call.gy, call.dtype};
  if (call.sums == nullptr) {
    const In in[] = {z, gy};
    return map<2>(ActivationDerivative<kActivation>{}, in, {call.gz, call.dtype},
                  flat_walk(call.rows * call.columns, 3));
  }
  const DerivativeTerms<kActivation> terms{z, gy, call.gz, context().amax_words};
  if (call.dtype == DType::f64) return sum<double>(terms, call.rows, call.columns, call.columns, call.sums);
  sum<float>(terms, call.rows, call.columns, call.columns, call.sums);
}

}  // namespace

void run_column_sums(const ColumnSumsArgs& call) {
  if (call.columns <= 0) return;
  const PlainTerms x{{call.x, call.dtype}};
  if (call.dtype == DType::f64) return sum<double>(x, call.rows, call.columns, call.pitch, call.sums);
  sum<float>(x, call.rows, call.columns, call.pitch, call.sums);
}

void run_activation_backward(const ActivationBackwardArgs& call) {
  if (call.columns <= 0) return;
  switch (call.activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return backward<Activation::kRelu>(call);
    case Activation::kGelu: return backward<Activation::kGelu>(call);
    case Activation::kGeluTanh: return backward<Activation::kGeluTanh>(call);
  }
  throw Failure(Status::kUnsupported, "kNone has no derivative");
}

}  // namespace binade::cuda
