#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/activation.h"
#include "binade/core/dtype.h"
#include "binade/core/float8.h"

namespace binade {

/// C (m, n) = activation(A (m, k) B (k, n) + bias (n)), or C += A B, where the product is summed completely before it
/// is added.
///
/// Strides are in elements and arbitrary, so a transpose is a swap of strides. Inputs have dtype `in` (f32, f16, bf16,
/// f64). Sums are f32 (f64 for f64): the terms of an element are added one after the other in the order of k, in parts
/// whose limits are fixed (for bf16, AMX tile registers use two such sums in each 32 steps of k, docs/decisions/0035);
/// the result is rounded to `out` once. f16 and bf16 products are exact in f32, as on a Tensor Core. The bits do not
/// depend on the number of threads.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  DType in = DType::f32;
  DType out = DType::f32;  ///< f32, f16, bf16; f64 with f64 inputs
  const void* a = nullptr;
  std::int64_t a_row = 0, a_col = 1;  ///< elements between rows, elements between columns
  const void* b = nullptr;
  std::int64_t b_row = 0, b_col = 1;
  void* c = nullptr;
  std::int64_t c_row = 0;  ///< columns of C are contiguous

  bool accumulate = false;     ///< C += A B; REQUIRES out f32 or f64 and none of the options below
  bool partial = false;        ///< C is a part of a sum, and is therefore not observed
  bool tf32 = false;           ///< a GPU's library may round f32 inputs to TF32; other devices ignore it
  const void* bias = nullptr;  ///< n values of f32 (f64 for f64 inputs)
  bool low_bias = false;       ///< the bias has the 16-bit dtype `out`; REQUIRES KernelTable::low_bias
  Activation activation = Activation::kNone;
  void* pre_activation = nullptr;  ///< A B + bias in dtype `out`, laid out like C; null: not stored
  /// C = A B derivative_of'(derivative_at): each sum is multiplied by an activation's derivative before it is rounded,
  /// which gives the gradient at the previous layer's activation input. REQUIRES one product, c_row n and none of the
  /// options above except tf32.
  Activation derivative_of = Activation::kNone;
  const void* derivative_at = nullptr;  ///< z in dtype `out`, laid out like C

  /// B as KernelTable::pack_operand has stored it, for a B that many products read; null: not packed. REQUIRES batch 1.
  /// The bits of C do not change.
  const void* packed_b = nullptr;

  /// Product i of `batch` reads a + a_offsets[i] and b + b_offsets[i] and writes c + c_offsets[i] (elements; null: all
  /// 0).
  std::int64_t batch = 1;
  const std::int64_t* a_offsets = nullptr;
  const std::int64_t* b_offsets = nullptr;
  const std::int64_t* c_offsets = nullptr;

  /// With `in` u8, A and B are 8-bit codes; rows of A and columns of B are contiguous, without gaps between them. A
  /// value is its code times the scale of its operand, which is stored on the same device. Only for devices that
  /// multiply codes (core/ops/fp8.h).
  Float8 a_format = Float8::e4m3, b_format = Float8::e4m3;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
};

/// Stores operand B of `product` in the order in which gemm reads it (GemmArgs::packed_b), at `to`: packed_bytes()
/// bytes, aligned to 64. Only devices with KernelTable::packed_bytes have this kernel.
struct PackOperandArgs {
  GemmArgs product{};
  void* to = nullptr;
};

/// sums (columns) = column sums of x (rows, columns), rows `pitch` apart, in f32 (f64 for f64) over fixed blocks of
/// rows.
struct ColumnSumsArgs {
  const void* x = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, pitch = 0;
  void* sums = nullptr;
};
/// gz (rows, columns) = gy * activation'(z), all contiguous and of one dtype; gz may be gy. `sums` (columns) receives
/// the column sums of gz as stored, the same bits as column_sums gives; null: not wanted.
struct ActivationBackwardArgs {
  Activation activation = Activation::kNone;
  DType dtype = DType::f32;
  const void* z = nullptr;
  const void* gy = nullptr;
  void* gz = nullptr;
  std::int64_t rows = 0, columns = 0;
  void* sums = nullptr;
};
/// y = activation(z) for `count` values of one dtype: the same bits as those that `gemm` stores in C when it stores z
/// as pre_activation. A device that cannot guarantee these bits lacks the kernel. The results are not observed.
struct ActivateArgs {
  Activation activation = Activation::kNone;
  DType dtype = DType::f32;
  const void* z = nullptr;
  void* y = nullptr;
  std::int64_t count = 0;
};

namespace cpu {

/// Products of one kernel level.
struct GemmKernels {
  void (*gemm)(const GemmArgs&);
  void (*column_sums)(const ColumnSumsArgs&);
  void (*activation_backward)(const ActivationBackwardArgs&);
  void (*activate)(const ActivateArgs&);
  std::size_t (*packed_bytes)(const GemmArgs&);
  void (*pack_operand)(const PackOperandArgs&);
};

}  // namespace cpu
}  // namespace binade
