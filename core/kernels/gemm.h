#pragma once

#include <cstdint>

#include "binade/core/dtype.h"
#include "binade/core/float8.h"
#include "binade/core/ops/activation.h"

namespace binade::cpu {

/// C (m, n) = activation(A (m, k) B (k, n) + bias (n)), or C += A B: the sum of the product is complete before C is
/// added to it.
///
/// Strides are in elements and may be anything, so a transpose is a swap of strides. Inputs are `in` (f32, f16, bf16,
/// f64); sums are f32 (f64 for f64), one chain per element in the order of k cut at fixed places (two in each 32 of k
/// where tile registers multiply bf16, docs/decisions/0035); the result is rounded to `out` once. f16 and bf16 products
/// are exact in f32, as on a Tensor Core. Bits do not depend on the thread count.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  DType in = DType::f32;
  DType out = DType::f32;  ///< f32, f16, bf16; f64 with f64 inputs
  const void* a = nullptr;
  std::int64_t a_row = 0, a_col = 1;
  const void* b = nullptr;
  std::int64_t b_row = 0, b_col = 1;
  void* c = nullptr;
  std::int64_t c_row = 0;  ///< columns of C lie next to each other

  bool accumulate = false;     ///< C += A B; REQUIRES out f32 or f64 and none of the below
  bool partial = false;        ///< C is a part of a sum: not a result to observe
  bool tf32 = false;           ///< f32 inputs may be rounded to TF32 by a GPU's library; who has none ignores it
  const void* bias = nullptr;  ///< n values of f32 (f64 with f64 inputs)
  bool low_bias = false;       ///< they are of dtype `out`, a half; REQUIRES GemmKernels::low_bias
  Activation activation = Activation::kNone;
  void* pre_activation = nullptr;  ///< A B + bias in dtype `out`, laid out like C; null: not kept
  /// C = A B slope'(z): the sum is multiplied by an activation's derivative before it is rounded, as a gradient is on
  /// its way back through the layer before. REQUIRES one product, c_row n and none of the above but tf32.
  Activation slope = Activation::kNone;
  const void* slope_at = nullptr;  ///< z in dtype `out`, laid out like C

  /// Product i of `batch` reads a + a_offsets[i] and b + b_offsets[i] and writes c + c_offsets[i] (elements; null: all
  /// 0).
  std::int64_t batch = 1;
  const std::int64_t* a_offsets = nullptr;
  const std::int64_t* b_offsets = nullptr;
  const std::int64_t* c_offsets = nullptr;

  /// `in` u8: codes of 8 bits, the k of a row of A and those of a column of B without gaps between rows or columns. A
  /// value is its code times its operand's scale, which lies where the data does. For devices that multiply codes
  /// (core/ops/fp8.h).
  Float8 a_format = Float8::e4m3, b_format = Float8::e4m3;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
};

struct GemmKernels {
  void (*gemm)(const GemmArgs&);
  /// sums (n) = column sums of x (m, n) with rows `x_row` apart, added in f32 (f64) in fixed blocks of rows.
  void (*column_sums)(const void* x, DType dtype, std::int64_t m, std::int64_t n, std::int64_t x_row, void* sums);
  /// gz (m, n) = gy * activation'(z), all of one dtype and contiguous; gz may be gy. sums (n) are the column sums of gz
  /// as it was stored, to the bits of column_sums; null: not wanted.
  void (*activation_backward)(Activation activation, DType dtype, const void* z, const void* gy, void* gz,
                              std::int64_t m, std::int64_t n, void* sums);
  /// y = activation(z) of n values of one dtype: the bits that `gemm` stores of sums that it has stored as z. Null: it
  /// cannot be said of this device. What it stores is not observed.
  void (*activate)(Activation activation, DType dtype, const void* z, void* y, std::int64_t n) = nullptr;
  bool low_bias = false;  ///< `gemm` takes a bias in the results' 16 bits as it is
  /// Whether `gemm` had better multiply by this slope, for results of `dtype`, than activation_backward() behind it;
  /// null: always.
  bool (*slope_in_product)(Activation slope, DType dtype) = nullptr;
};

}  // namespace binade::cpu
