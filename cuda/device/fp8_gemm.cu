#include <string>

#include "binade/core/float8.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/products.cuh"

/// Products of 8-bit codes: decides which layers use them, and computes a product that no library computes. fp8.cu
/// makes the codes; gemm_library.cu calls the library.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kCodes = 16;  // number of codes per access

/// Computes y[i], the value of code i: its 8-bit number times the scale, which is exact in bf16.
template <Float8 kFormat>
__global__ void __launch_bounds__(kThreads)
    decode(const std::uint8_t* codes, std::int64_t count, const float* scale, bfloat16* y) {
  const float unit = *scale;
  for (std::int64_t i = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * kCodes; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads * kCodes) {
    const Bytes16 all = *reinterpret_cast<const Bytes16*>(codes + i);
#pragma unroll
    for (int half = 0; half < kCodes; half += kPack) {
      float x[kPack];
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const std::uint32_t word = all.word[(half + k) / 4];
        x[k] = from_float8(static_cast<std::uint8_t>(word >> k % 4 * 8), kFormat) * unit;
      }
      store_pack(y, DType::bf16, i + half, x);
    }
  }
}

void decode_as(Float8 format, const void* codes, std::int64_t count, const float* scale, bfloat16* y) {
  const auto* from = static_cast<const std::uint8_t*>(codes);
  const unsigned grid = grid_for(ceil_div(count, kThreads * kCodes));
  if (format == Float8::e4m3)
    launch(decode<Float8::e4m3>, grid, kThreads, 0, from, count, scale, y);
  else
    launch(decode<Float8::e5m2>, grid, kThreads, 0, from, count, scale, y);
}

}  // namespace

void run_fp8_choice(const Fp8Choice& call) {
  const std::string_view why = why_no_fp8_codes(context().capability, call.rows, call.inputs, call.outputs);
  *call.codes = why.empty();
  if (why.empty()) return;
  add_note_once("8-bit linear layer of " + std::to_string(call.inputs) + " inputs and " + std::to_string(call.outputs) +
                " outputs: multiplied in bf16: " + std::string(why));
}

void gemm_in_bf16_of_codes(const GemmArgs& g, void (*multiply)(const GemmArgs&)) {
  const Buffer<bfloat16> a(g.m * g.k), b(g.n * g.k);
  decode_as(g.a_format, g.a, g.m * g.k, g.a_scale, a.data());
  decode_as(g.b_format, g.b, g.n * g.k, g.b_scale, b.data());
  GemmArgs values = g;
  values.in = DType::bf16;
  values.a = a.data();
  values.b = b.data();
  values.a_scale = values.b_scale = nullptr;
  multiply(values);
}

}  // namespace binade::cuda
