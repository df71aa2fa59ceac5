#include <vector>

#include "binade/core/math.h"
#include "binade/core/stochastic_rounding.h"
#include "binade/cuda/device/flat.cuh"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/live_stream.cuh"

/// The fused update and the moving average: every value is read once and written once.
namespace binade::cuda {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;

/// One element in its three arrays, before and after.
struct Element {
  float w, m, v;
};

/// A clamp that lets NaN through: both comparisons are false for it.
__device__ __forceinline__ float clamped(float g, float limit) { return g > limit ? limit : (g < -limit ? -limit : g); }

/// The numbers of a slice, in the form that the rules want them in.
struct Numbers {
  float factor, clip, l2, keep, step, beta1, share1, beta2, share2, root, eps;
  float old_share, share_of_gradient, direct, through;
  bool momentum;

  __device__ explicit Numbers(const UpdateSlice& s)
      : factor(s.gradient_factor),
        clip(s.clip_value > 0 ? s.clip_value : std::numeric_limits<float>::infinity()),
        l2(s.l2),
        keep(s.keep),
        step(s.step_size),
        beta1(s.beta1),
        share1(s.one_minus_beta1),
        beta2(s.beta2),
        share2(s.one_minus_beta2),
        root(s.root_factor),
        eps(s.eps),
        old_share(s.first ? 0.0f : s.beta1),  // the first update starts the momentum at g itself
        share_of_gradient(s.first ? 1.0f : s.one_minus_beta1),
        direct(s.nesterov ? 1.0f : 0.0f),
        through(s.nesterov ? s.beta1 : 1.0f),
        momentum(s.moment1 != nullptr) {}
};

template <UpdateRule kRule>
__device__ __forceinline__ void step(const Numbers& n, float gradient, Element& x) {
  float g = clamped(gradient * n.factor, n.clip);
  if constexpr (kRule == UpdateRule::kSgd) {
    g += n.l2 * x.w;
    if (n.momentum) {
      x.m = n.old_share * x.m + n.share_of_gradient * g;
      g = n.direct * g + n.through * x.m;
    }
    x.w = x.w - n.step * g;
  } else if constexpr (kRule == UpdateRule::kAdam) {
    g += n.l2 * x.w;
    x.m = x.m + n.share1 * (g - x.m);
    x.v = n.beta2 * x.v + n.share2 * (g * g);
    x.w = n.keep * x.w - n.step * (x.m / (math::sqrt(x.v) * n.root + n.eps));
  } else {
    const float direction = n.beta1 * x.m + n.share1 * g;
    const float sign = direction > 0.0f ? 1.0f : (direction < 0.0f ? -1.0f : direction);  // 0 and NaN stay
    x.m = n.beta2 * x.m + n.share2 * g;
    x.w = n.keep * x.w - n.step * sign;
  }
}

/// 16-bit values, each by its own word of the stream: two blocks of it, as every FlatBlock begins on one.
__device__ void store_stochastic(const UpdateSlice& s, const RandomStream& stream, std::int64_t at, int n,
                                 const float (&w)[kPack]) {
  std::uint32_t word[kPack];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::array<std::uint32_t, 4> four = stream.block(static_cast<std::uint64_t>(at / 4 + half));
#pragma unroll
    for (int k = 0; k < 4; ++k) word[4 * half + k] = four[static_cast<std::size_t>(k)];
  }
  std::uint16_t bits[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    bits[k] = s.value_dtype == DType::f16 ? round_stochastic_f16(w[k], word[k]).bits
                                          : round_stochastic_bf16(w[k], word[k]).bits;
  auto* to = static_cast<std::uint16_t*>(s.value) + at;
  if (n == kPack && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    Bytes16 all;
#pragma unroll
    for (int k = 0; k < 4; ++k) all.word[k] = bits[2 * k] | static_cast<std::uint32_t>(bits[2 * k + 1]) << 16;
    *reinterpret_cast<Bytes16*>(to) = all;
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    if (k < n) to[k] = bits[k];
}

/// A step that the device decides: nothing happens unless its outcome is a commit.
struct Decided {
  const StepOutcome* outcome = nullptr;  // null: the host has decided
  const StepNumbers* numbers = nullptr;
  const std::int64_t* step_offset = nullptr;

  __device__ bool commits() const { return outcome == nullptr || outcome->cause == Undecided::kNone; }
};
Decided decided(const StepPlaces& places) { return {places.outcome, places.numbers, context().step_offset}; }

struct Update {
  const FlatBlock* blocks;
  const UpdateSlice* slices;
  BlockExtremes* extremes;  // one a block; of a decided step one a slice
  bool write;
  RandomStream rounding;
  Decided decided;
};

template <UpdateRule kRule, bool kStochastic>
__global__ void __launch_bounds__(kFlatThreads) update_blocks(Update a) {
  if (!a.decided.commits()) return;
  const bool by_slice = a.decided.outcome != nullptr;
  const FlatBlock block = a.blocks[blockIdx.x];
  UpdateSlice s = a.slices[block.slice];
  if (by_slice) s.gradient_factor = a.decided.outcome->gradient_factor;
  BlockExtremes largest;
  if (s.gradient != nullptr) {
    const Numbers numbers(s);
    RandomStream stream = by_slice ? live_stream(a.rounding, a.decided.step_offset) : a.rounding;
    stream.index = static_cast<std::uint32_t>(block.slice);
    each_run(block.count, [&](int i, int n) {
      const std::int64_t at = block.begin + i;
      float g[kPack], w[kPack], m[kPack] = {}, v[kPack] = {};
      load_run(s.gradient, DType::f32, at, n, g);
      load_run(s.value, s.value_dtype, at, n, w);
      if (s.moment1 != nullptr) load_run(s.moment1, s.moment_dtype, at, n, m);
      if (s.moment2 != nullptr) load_run(s.moment2, s.moment_dtype, at, n, v);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        Element x{w[k], m[k], v[k]};
        step<kRule>(numbers, g[k], x);
        w[k] = x.w;
        m[k] = x.m;
        v[k] = x.v;
        if (k >= n) continue;
        const auto larger = [](std::uint32_t& word, float y) {
          word = LargerWord::combine(word, std::bit_cast<std::uint32_t>(y) & kMagnitude);
        };
        larger(largest.value, x.w);
        larger(largest.moment1, x.m);
        larger(largest.moment2, x.v);
      }
      if (!a.write) return;
      if (kStochastic && s.value_dtype != DType::f32)
        store_stochastic(s, stream, at, n, w);
      else
        store_run(s.value, s.value_dtype, at, n, w);
      if (s.low != nullptr) store_run(s.low, s.low_dtype, at, n, w);
      if (s.moment1 != nullptr) store_run(s.moment1, s.moment_dtype, at, n, m);
      if (s.moment2 != nullptr) store_run(s.moment2, s.moment_dtype, at, n, v);
    });
  }
  largest.value = fold_block<LargerWord, kFlatThreads>(largest.value);
  largest.moment1 = fold_block<LargerWord, kFlatThreads>(s.moment1 != nullptr ? largest.moment1 : 0u);
  largest.moment2 = fold_block<LargerWord, kFlatThreads>(s.moment2 != nullptr ? largest.moment2 : 0u);
  if (threadIdx.x != 0) return;
  if (!by_slice) {
    a.extremes[blockIdx.x] = largest;
    return;
  }
  BlockExtremes& of_slice = a.extremes[block.slice];
  atomicMax(&of_slice.value, largest.value);
  atomicMax(&of_slice.moment1, largest.moment1);
  atomicMax(&of_slice.moment2, largest.moment2);
}

/// Where the values of one average lie.
struct Averaged {
  float* average;
  const void* value;
  DType dtype;
};

__global__ void __launch_bounds__(kFlatThreads)
    average_blocks(const FlatBlock* blocks, const Averaged* slices, float weight, Decided decided) {
  if (!decided.commits()) return;
  if (decided.numbers != nullptr) weight = decided.numbers->average_weight;
  const FlatBlock block = blocks[blockIdx.x];
  const Averaged s = slices[block.slice];
  each_run(block.count, [&](int i, int n) {
    const std::int64_t at = block.begin + i;
    float mean[kPack], x[kPack];
    load_run(s.average, DType::f32, at, n, mean);
    load_run(s.value, s.dtype, at, n, x);
#pragma unroll
    for (int k = 0; k < kPack; ++k) mean[k] += weight * (x[k] - mean[k]);
    store_run(s.average, DType::f32, at, n, mean);
  });
}

void start_update(const UpdateArguments& call, const Update& a) {
  const auto start = [&]<UpdateRule kRule>(std::integral_constant<UpdateRule, kRule>) {
    launch(call.stochastic ? update_blocks<kRule, true> : update_blocks<kRule, false>,
           static_cast<unsigned>(call.blocks.size()), kFlatThreads, 0, a);
  };
  switch (call.rule) {
    case UpdateRule::kSgd: start(std::integral_constant<UpdateRule, UpdateRule::kSgd>{}); break;
    case UpdateRule::kAdam: start(std::integral_constant<UpdateRule, UpdateRule::kAdam>{}); break;
    case UpdateRule::kLion: start(std::integral_constant<UpdateRule, UpdateRule::kLion>{}); break;
  }
}

void start_average(const AverageArguments& call, const Decided& decided) {
  if (call.blocks.empty()) return;
  std::vector<Averaged> slices;
  for (std::size_t s = 0; s < call.averages.size(); ++s)
    slices.push_back({call.averages[s], call.values[s], call.value_dtypes[s]});
  const Buffer<Averaged> there(slices.data(), static_cast<std::int64_t>(slices.size()));
  launch(average_blocks, static_cast<unsigned>(call.blocks.size()), kFlatThreads, 0, flat_blocks(call.blocks),
         there.data(), call.weight, decided);
}

}  // namespace

void run_update(const UpdateArguments& call) {
  if (call.blocks.empty()) return;
  const Buffer<UpdateSlice> slices(call.slices.data(), static_cast<std::int64_t>(call.slices.size()));
  const Buffer<BlockExtremes> extremes(static_cast<std::int64_t>(call.blocks.size()));
  start_update(call, {flat_blocks(call.blocks), slices.data(), extremes.data(), call.write, call.rounding, {}});
  bring(call.extremes, extremes.data());
}

void run_decided_update(const DecidedUpdateArgs& call) {
  const UpdateArguments& a = call.update;
  if (a.blocks.empty()) return;
  start_update(a, {flat_blocks(a.blocks), call.places.slices, call.places.extremes, true, a.rounding,
                   decided(call.places)});
}

void run_average(const AverageArguments& call) { start_average(call, {}); }
void run_decided_average(const DecidedAverageArgs& call) { start_average(call.average, decided(call.places)); }

}  // namespace binade::cuda
