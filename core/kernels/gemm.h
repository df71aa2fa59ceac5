#pragma once

#include <cstdint>

#include "binade/core/activation.h"
#include "binade/core/dtype.h"
#include "binade/core/float8.h"

namespace binade {

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
  bool low_bias = false;       ///< they are of dtype `out`, a half; REQUIRES KernelTable::low_bias
  Activation activation = Activation::kNone;
  void* pre_activation = nullptr;  ///< A B + bias in dtype `out`, laid out like C; null: not kept
  /// C = A B slope'(z): the sum is multiplied by an activation's derivative before it is rounded, as a gradient is on
  /// its way back through the layer before. REQUIRES one product, c_row n and none of the above but tf32.
  Activation derivative_of = Activation::kNone;
  const void* derivative_at = nullptr;  ///< z in dtype `out`, laid out like C

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

/// sums (columns) = column sums of x (rows, columns) with rows `pitch` apart, added in f32 (f64) in fixed blocks of
/// rows.
struct ColumnSumsArgs {
  const void* x = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, pitch = 0;
  void* sums = nullptr;
};
/// gz (rows, columns) = gy * activation'(z), all of one dtype and contiguous; gz may be gy. sums (columns) are the
/// column sums of gz as it was stored, to the bits of column_sums; null: not wanted.
struct ActivationBackwardArgs {
  Activation activation = Activation::kNone;
  DType dtype = DType::f32;
  const void* z = nullptr;
  const void* gy = nullptr;
  void* gz = nullptr;
  std::int64_t rows = 0, columns = 0;
  void* sums = nullptr;
};
/// y = activation(z) of `count` values of one dtype: the bits that `gemm` stores of sums that it has stored as z. A
/// device that cannot guarantee these bits leaves the kernel out. The results are not observed.
struct ActivateArgs {
  Activation activation = Activation::kNone;
  DType dtype = DType::f32;
  const void* z = nullptr;
  void* y = nullptr;
  std::int64_t count = 0;
};

namespace cpu {

/// One level's products; the arguments are those of the structs above.
struct GemmKernels {
  void (*gemm)(const GemmArgs&);
  void (*column_sums)(const void* x, DType dtype, std::int64_t m, std::int64_t n, std::int64_t x_row, void* sums);
  void (*activation_backward)(Activation activation, DType dtype, const void* z, const void* gy, void* gz,
                              std::int64_t m, std::int64_t n, void* sums);
  void (*activate)(Activation activation, DType dtype, const void* z, void* y, std::int64_t n);
};

}  // namespace cpu
}  // namespace binade
