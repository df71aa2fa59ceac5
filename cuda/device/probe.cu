#include <bit>
#include <limits>

#include "binade/core/math.h"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// The kernels of telemetry's probes (core/kernels/probe.h).
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// ---- distance to a singularity -----------------------------------------------------------------------------------

/// The values of one thread from which the distance to a singularity follows. Distances grow monotonically on either
/// side of a singularity, even after rounding, so four values are enough. They are found by comparisons in their own
/// type, and each thread computes only one distance in double.
template <class C>
struct Extremes {
  static constexpr C kInfinity = std::numeric_limits<C>::infinity();

  C singularity;
  C below = -kInfinity, above = kInfinity;    // the nearest value on each side; the singularity itself counts as below
  C least = kInfinity, largest = -kInfinity;  // the smallest and the largest of all values

  __device__ explicit Extremes(double p) : singularity(static_cast<C>(p)) {}

  __device__ __forceinline__ void add(C x) {  // a NaN is ignored, because every comparison is false
    if (x <= singularity && x > below) below = x;
    if (x > singularity && x < above) above = x;
    if (x < least) least = x;
    if (x > largest) largest = x;
  }
  __device__ double nearest(double low, double high) const {
    const double p = static_cast<double>(singularity);
    double distance = p - static_cast<double>(below);
    if (const double d = static_cast<double>(above) - p; d < distance) distance = d;
    if (const double d = high - static_cast<double>(largest); d < distance) distance = d;  // false for inf - inf
    return static_cast<double>(least) < low || distance < 0 ? 0.0 : distance;
  }
};

struct Minimum {
  __device__ static double combine(double a, double b) { return b < a ? b : a; }
};

/// Computes the distance for SingularityProbe. kFlat: rows are contiguous and begin at a multiple of 16 bytes.
template <class C, bool kFlat>
__global__ void __launch_bounds__(kThreads) nearest(SingularityProbe probe) {
  Extremes<C> found(probe.singularity);
  const ProbedValues& v = probe.values;
  const std::int64_t count = v.rows * v.cols;
  const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t single = 0;
  if constexpr (kFlat) {
    single = count / kPack * kPack;
    for (std::int64_t i = thread * kPack; i < single; i += threads * kPack) {
      float x[kPack];
      load_pack(v.x.data, v.x.dtype, i, x);
#pragma unroll
      for (int e = 0; e < kPack; ++e) found.add(x[e]);
    }
  }
  for (std::int64_t i = single + thread; i < count; i += threads) {
    const std::int64_t row = i / v.cols;
    found.add(load_at<C>(v.x.data, v.x.dtype, row * v.x.pitch + (i - row * v.cols)));
  }
  const double least = fold_block<Minimum, kThreads>(found.nearest(probe.low, probe.high));
  // The bits of non-negative doubles are ordered like their values.
  if (threadIdx.x == 0)
    atomicMin(reinterpret_cast<unsigned long long*>(probe.nearest), std::bit_cast<unsigned long long>(least));
}

// ---- zeros ------------------------------------------------------------------------------------------------------

/// Counts zeros. Must be launched as one block, whose warps divide the runs of the ZeroSample among them.
__global__ void __launch_bounds__(kThreads) count_zeros(ZeroProbe probe) {
  static_assert(ZeroSample::kRun == kWarp);
  const ProbedValues& v = probe.values;
  const ZeroSample sample(v.rows * v.cols);
  const auto* bits = static_cast<const std::uint16_t*>(v.x.data);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int zeros = 0;
  for (std::int64_t run = threadIdx.x / kWarp; run < ZeroSample::kRuns; run += kWarps) {
    if (lane >= sample.length(run)) continue;
    const std::int64_t i = sample.begin(run) + lane, row = i / v.cols;
    zeros += (bits[row * v.x.pitch + (i - row * v.cols)] & 0x7fffu) == 0 ? 1 : 0;
  }
  zeros = fold_block<Adding, kThreads>(zeros);
  if (threadIdx.x == 0) *probe.zeros = static_cast<double>(zeros);
}

// ---- entropy ----------------------------------------------------------------------------------------------------

/// Computes the relative entropies of the rows of a RowSample, one block per row.
__global__ void __launch_bounds__(kThreads) relative_entropy(ProbedValues logits, RowSample sample, double* entropies) {
  const std::int64_t row = sample.of(blockIdx.x) * logits.x.pitch;
  const auto each_visible = [&](auto&& body) {
    for (std::int64_t s = threadIdx.x; s < logits.cols; s += kThreads) {
      const double l = load_at<double>(logits.x.data, logits.x.dtype, row + s);
      if (!VisibleKeys::masked(l)) body(l);
    }
  };
  double top = Largest::kStart<double>;
  int visible = 0;
  each_visible([&](double l) {
    top = Largest::combine(top, l);
    ++visible;
  });
  top = fold_block<Largest, kThreads>(top);
  visible = fold_block<Adding, kThreads>(visible);
  double sum = 0, weighted = 0;
  each_visible([&](double l) {
    const double e = math::exp(l - top);
    sum += e;
    weighted += e * (l - top);
  });
  sum = fold_block<Adding, kThreads>(sum);
  weighted = fold_block<Adding, kThreads>(weighted);
  if (threadIdx.x != 0) return;
  const double entropy = math::log(sum) - weighted / sum;
  const bool is_meaningful = visible >= VisibleKeys::kLeast && entropy - entropy == 0;
  entropies[blockIdx.x] = !is_meaningful ? std::numeric_limits<double>::quiet_NaN()
                                         : (entropy > 0 ? entropy : 0) / math::log(static_cast<double>(visible));
}

/// Computes the logits of sampled rows. The grid is (keys / (kThreads / kWarp * kKeysOfWarp), rows of the sample). A
/// warp processes one key at a time.
constexpr int kKeysOfWarp = 4;
__global__ void __launch_bounds__(kThreads) attention_logits(AttentionArgs a, RowSample sample, double* logits) {
  const std::int64_t row = sample.of(blockIdx.y);
  const std::int64_t query = row % a.queries, head = row / a.queries % a.heads, batch = row / a.queries / a.heads;
  const std::int64_t key_head = head / (a.heads / a.key_heads);
  const std::int64_t q = (batch * a.queries + query) * a.q.token + head * a.q.head;
  const std::int64_t mask = batch * a.mask_batch + head * a.mask_head + query * a.mask_query;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int n = 0; n < kKeysOfWarp; ++n) {
    const std::int64_t s = (blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / kWarp) * kKeysOfWarp + n;
    if (s >= a.keys) return;
    double logit = -std::numeric_limits<double>::infinity();
    if (s < a.visible(query)) {
      const std::int64_t k = (batch * a.keys + s) * a.k.token + key_head * a.k.head;
      double dot = 0;
      for (std::int64_t d = lane; d < a.depth; d += kWarp)
        dot += load_at<double>(a.q.data, a.dtype, q + d) * load_at<double>(a.k.data, a.dtype, k + d);
      logit = a.scale * fold_warp<Adding>(dot);
      if (a.mask != nullptr) logit += load_at<double>(a.mask, accumulate_dtype(a.dtype), mask + s);
    }
    if (lane == 0) logits[blockIdx.y * a.keys + s] = logit;
  }
}

}  // namespace

void run_singularity_probe(const SingularityProbe& probe) {
  const std::int64_t count = probe.values.rows * probe.values.cols;
  if (count == 0) return;
  const ProbedValues& v = probe.values;
  const bool flat = (v.x.pitch == v.cols || v.rows == 1) && packs(v.x.data, v.x.dtype);
  const auto kernel = v.x.dtype == DType::f64 ? nearest<double, false>
                      : flat                  ? nearest<float, true>
                                              : nearest<float, false>;
  launch(kernel, grid_for(ceil_div(count, kThreads * kPack)), static_cast<unsigned>(kThreads), 0, probe);
}

void run_zero_probe(const ZeroProbe& probe) { launch(count_zeros, 1u, static_cast<unsigned>(kThreads), 0, probe); }

void run_softmax_probe(const SoftmaxProbe& probe) {
  const RowSample sample(probe.logits.rows);
  if (sample.size == 0) return;
  launch(relative_entropy, static_cast<unsigned>(sample.size), static_cast<unsigned>(kThreads), 0, probe.logits, sample,
         probe.entropies);
}

void run_attention_probe(const AttentionProbe& probe) {
  const RowSample sample(probe.rows());
  if (sample.size == 0) return;
  const std::int64_t keys = probe.args.keys;
  const Buffer<double> logits(sample.size * keys);
  const auto groups = static_cast<unsigned>(ceil_div(keys, kWarps * kKeysOfWarp));
  if (keys > 0)
    launch(attention_logits, dim3(groups, static_cast<unsigned>(sample.size)), static_cast<unsigned>(kThreads), 0,
           probe.args, sample, logits.data());
  const ProbedValues rows{{logits.data(), DType::f64, keys}, sample.size, keys};
  launch(relative_entropy, static_cast<unsigned>(sample.size), static_cast<unsigned>(kThreads), 0, rows,
         RowSample(sample.size), probe.entropies);
}

}  // namespace binade::cuda
