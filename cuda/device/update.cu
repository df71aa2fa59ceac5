#include <vector>

#include "binade/core/math.h"
#include "binade/core/stochastic_rounding.h"
#include "binade/cuda/device/flat.cuh"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/live_stream.cuh"

/// The fused update and the moving average. Each reads and writes every value once.
namespace binade::cuda {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;

/// Stores 16-bit values, each rounded stochastically by its own word of the random stream. Eight values use two Philox
/// blocks, since every FlatBlock begins at a block of the stream.
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

/// The device's decision whether the step commits. A kernel does nothing if the step does not commit.
struct Decided {
  const StepOutcome* outcome = nullptr;  // null: the host has decided
  const StepNumbers* numbers = nullptr;
  const std::int64_t* step_offset = nullptr;

  __device__ bool commits() const { return outcome == nullptr || outcome->cause == RefusalCause::kNone; }
};
/// `addresses.numbers` belong to one optimizer, whose random stream depends on the number of its updates.
Decided decided(const StepAddresses& addresses) {
  return {addresses.outcome, addresses.numbers, &addresses.numbers->step_offset};
}

struct Update {
  const FlatBlock* blocks;
  const UpdateSlice* slices;
  BlockExtremes* extremes;  // one per block; if the device decides the step, one per slice
  bool write;
  RandomStream rounding;
  Decided decided;
};

template <class Rule, bool kStochastic>
__global__ void __launch_bounds__(kFlatThreads) update_blocks(Update a) {
  if (!a.decided.commits()) return;
  const bool by_slice = a.decided.outcome != nullptr;
  const FlatBlock block = a.blocks[blockIdx.x];
  UpdateSlice s = a.slices[block.slice];
  if (by_slice) s.gradient_factor = a.decided.outcome->gradient_factor;
  const float factor = s.gradient_factor * s.numbers.direction;
  BlockExtremes largest;
  if (s.gradient != nullptr) {
    const float limit = s.clip_value > 0 ? s.clip_value : std::numeric_limits<float>::infinity();
    RandomStream stream = by_slice ? live_stream(a.rounding, a.decided.step_offset) : a.rounding;
    stream.index = static_cast<std::uint32_t>(block.slice);
    each_run(block.count, [&](int i, int n) {
      const std::int64_t at = block.begin + i;
      float g[kPack], w[kPack], m[kPack] = {}, v[kPack] = {}, third[kPack] = {};
      load_run(s.gradient, DType::f32, at, n, g);
      load_run(s.value, s.value_dtype, at, n, w);
      if constexpr (Rule::kMoments > 0) load_run(s.moment1, s.moment_dtype, at, n, m);
      if constexpr (Rule::kMoments > 1) load_run(s.moment2, s.moment_dtype, at, n, v);
      if constexpr (Rule::kMoments > 2) load_run(s.moment3, s.moment_dtype, at, n, third);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        UpdateElement x{w[k], m[k], v[k], third[k]};
        Rule::update(s.numbers, math::clamp(g[k] * factor, -limit, limit), x);
        w[k] = x.w;
        m[k] = x.m;
        v[k] = x.v;
        third[k] = x.s;
        if (k >= n) continue;
        const auto larger = [](std::uint32_t& word, float y) {
          word = LargerWord::combine(word, std::bit_cast<std::uint32_t>(y) & kMagnitude);
        };
        larger(largest.value, x.w);
        larger(largest.moment1, x.m);
        larger(largest.moment2, x.v);
        if constexpr (Rule::kMoments > 2) larger(largest.moment2, x.s);
      }
      if (!a.write) return;
      if (kStochastic && s.value_dtype != DType::f32)
        store_stochastic(s, stream, at, n, w);
      else
        store_run(s.value, s.value_dtype, at, n, w);
      if (s.low != nullptr) store_run(s.low, s.low_dtype, at, n, w);
      if constexpr (Rule::kMoments > 0) store_run(s.moment1, s.moment_dtype, at, n, m);
      if constexpr (Rule::kMoments > 1) store_run(s.moment2, s.moment_dtype, at, n, v);
      if constexpr (Rule::kMoments > 2) store_run(s.moment3, s.moment_dtype, at, n, third);
    });
  }
  largest.value = fold_block<LargerWord, kFlatThreads>(largest.value);
  largest.moment1 = fold_block<LargerWord, kFlatThreads>(largest.moment1);
  largest.moment2 = fold_block<LargerWord, kFlatThreads>(largest.moment2);
  if (threadIdx.x != 0) return;
  if (!by_slice) {
    a.extremes[blockIdx.x] = largest;
    return;
  }
  BlockExtremes& slice_extremes = a.extremes[block.slice];
  atomicMax(&slice_extremes.value, largest.value);
  atomicMax(&slice_extremes.moment1, largest.moment1);
  atomicMax(&slice_extremes.moment2, largest.moment2);
}

/// The addresses of the average and the values of one slice.
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
  std::visit(
      [&]<class Rule>(Rule) {
        launch(call.stochastic ? update_blocks<Rule, true> : update_blocks<Rule, false>,
               static_cast<unsigned>(call.blocks.size()), kFlatThreads, 0, a);
      },
      call.rule);
}

void start_average(const AverageArguments& call, const Decided& decided) {
  if (call.blocks.empty()) return;
  std::vector<Averaged> slices;
  for (std::size_t s = 0; s < call.averages.size(); ++s)
    slices.push_back({call.averages[s], call.values[s], call.value_dtypes[s]});
  const Buffer<Averaged> on_device(slices.data(), static_cast<std::int64_t>(slices.size()));
  launch(average_blocks, static_cast<unsigned>(call.blocks.size()), kFlatThreads, 0, flat_blocks(call.blocks),
         on_device.data(), call.weight, decided);
}

}  // namespace

void run_update(const UpdateArguments& call) {
  if (call.blocks.empty()) return;
  const Buffer<UpdateSlice> slices(call.slices.data(), static_cast<std::int64_t>(call.slices.size()));
  const Buffer<BlockExtremes> extremes(static_cast<std::int64_t>(call.blocks.size()));
  start_update(call, {flat_blocks(call.blocks), slices.data(), extremes.data(), call.write, call.rounding, {}});
  download(call.extremes, extremes.data());
}

void run_decided_update(const DecidedUpdateArgs& call) {
  const UpdateArguments& a = call.update;
  if (a.blocks.empty()) return;
  start_update(a, {flat_blocks(a.blocks), call.addresses.slices, call.addresses.extremes, true, a.rounding,
                   decided(call.addresses)});
}

void run_average(const AverageArguments& call) { start_average(call, {}); }
void run_decided_average(const DecidedAverageArgs& call) { start_average(call.average, decided(call.addresses)); }

}  // namespace binade::cuda
