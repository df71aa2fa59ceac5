#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "binade/core/kernels/gemm.h"

/// What cuBLASLt is asked for a product, and how it has chosen to compute it. Host code that needs no GPU.
namespace binade::cuda {

/// One operand as cuBLASLt sees it. Everything of ours is stored by rows and cuBLASLt counts by columns, so it is asked
/// for the transposed product C' (n, m) = B' (n, k) A' (k, m): its first operand is our b, its second our a.
struct PlanOperand {
  bool transposed = false;   ///< stored as (k, lines) in its eyes
  std::int64_t leading = 0;  ///< elements from column to column
  std::int64_t batch = 0;    ///< elements from product to product
  int alignment = 16;        ///< bytes that every column begins on: a power of two, at most 16
  bool operator==(const PlanOperand&) const = default;
};

/// What is multiplied: elements of a dtype, or codes of 8 bits with a scale each. The second operand's codes are always
/// e4m3; named is the first one's format.
enum class PlanInput : int { f32, f16, bf16, e4m3, e5m2 };
constexpr bool are_codes(PlanInput in) { return in >= PlanInput::e4m3; }

/// What is done to a sum beside adding a bias to it, before it is rounded.
enum class PlanEpilogue : int {
  none,
  gelu_aux,  ///< GELU in the tanh form; what it is of is stored too, laid out like the result
  dgelu,     ///< times the derivative of that GELU at what lies there, laid out like the result
};

/// Everything that the choice of an algorithm depends on; equal keys get equal algorithms.
struct PlanKey {
  PlanInput in = PlanInput::f32;
  DType out = DType::f32;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  PlanOperand a, b, c;
  bool bias = false, accumulate = false;
  bool tf32 = false;  ///< f32 inputs are rounded to TF32
  PlanEpilogue epilogue = PlanEpilogue::none;
  bool operator==(const PlanKey&) const = default;
};
struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const;
};

/// The key of a product, or nothing where cuBLASLt has no form for it: f64, an activation other than GELU in the tanh
/// form with its input kept (its ReLU makes a NaN 0), a bias of another dtype than the result (for f32 results of codes
/// it is bf16, which is not ours) or one that does not begin on 16 bytes, operands that are dense in neither direction,
/// irregular batches. What a GELU is of, kept or read for its derivative, must begin on 16 bytes and its rows on 8
/// elements (cublasLt.h, of EPILOGUE_AUX_LD).
///
/// Of codes it multiplies K-major operands alone (its "TN"), e5m2 with e5m2 not at all, and everything must lie on 16
/// bytes, rows of the result included (cublasLtMatmul's reference, "to use FP8 kernels").
std::optional<PlanKey> plan_key(const GemmArgs& g);

/// `key` and its algorithm as one line of text, and back; nothing where the line is none. Without an algorithm:
/// cuBLASLt has none for this key. A line without the word "epilogue" means none.
std::string plan_line(const PlanKey& key, const std::optional<cublasLtMatmulAlgo_t>& algorithm);
struct PlanLine {
  PlanKey key;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};
std::optional<PlanLine> parse_plan_line(std::string_view line);

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* opaque) const {
    kDestroy(opaque);
  }
};
using LayoutOwner = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<&cublasLtMatrixLayoutDestroy>>;
using OperationOwner = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<&cublasLtMatmulDescDestroy>>;
using PreferenceOwner = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<&cublasLtMatmulPreferenceDestroy>>;

/// The descriptors of a product. Where a bias, what a GELU is of and scales lie is still to be set.
struct PlanDescriptors {
  OperationOwner operation;
  LayoutOwner first, second, result;
};
PlanDescriptors plan_descriptors(const PlanKey& key);

/// What heuristics may propose: sums are reduced in the computing type or not at all, in at most `workspace` bytes.
PreferenceOwner plan_preference(const PlanKey& key, std::size_t workspace);

/// Throws the Failure that fits unless `status` is success.
void check(cublasStatus_t status, const char* what);

}  // namespace binade::cuda
