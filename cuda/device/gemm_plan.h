#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "binade/core/kernels/gemm.h"

/// The key of a product by cuBLASLt, and the algorithm that was chosen for the key. This host code needs no GPU.
namespace binade::cuda {

/// One operand in cuBLASLt's terms. Binade's matrices are stored by rows, but cuBLASLt assumes columns, so it computes
/// the transposed product C' (n, m) = B' (n, k) A' (k, m): cuBLASLt's first operand is Binade's b, its second Binade's
/// a.
struct PlanOperand {
  bool transposed = false;   ///< stored as (k, lines), in cuBLASLt's column order
  std::int64_t leading = 0;  ///< elements between neighboring columns
  std::int64_t batch = 0;    ///< elements between the operands of neighboring products of a batch
  int alignment = 16;        ///< bytes that divide every column's address: a power of two, at most 16
  bool operator==(const PlanOperand&) const = default;
};

/// Type of the multiplied elements: a dtype, or 8-bit codes with one scale per operand. For codes it names the format
/// of the first operand; the second operand's format is always e4m3.
enum class PlanInput : int { f32, f16, bf16, e4m3, e5m2 };
constexpr bool are_codes(PlanInput in) { return in >= PlanInput::e4m3; }

/// The operation that is applied to a sum, besides adding a bias, before the sum is rounded.
enum class PlanEpilogue : int {
  none,
  gelu_aux,  ///< GELU in the tanh form; its input is stored too, laid out like the result
  dgelu,     ///< multiplies by the derivative of that GELU at a stored input, which is laid out like the result
};

/// Everything that the choice of an algorithm depends on; equal keys get equal algorithms. A product that is added to
/// its result has the same key as one that is stored. A gradient that is accumulated in place therefore has the same
/// bits as one that is computed first and then added.
struct PlanKey {
  PlanInput in = PlanInput::f32;
  DType out = DType::f32;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  ///< (m, k) times (k, n); number of products
  PlanOperand a, b, c;
  bool bias = false;  ///< cuBLASLt adds a bias
  bool tf32 = false;  ///< f32 inputs are rounded to TF32
  PlanEpilogue epilogue = PlanEpilogue::none;
  bool operator==(const PlanKey&) const = default;
};
/// Hash function of the map of plans.
struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const;
};

/// Returns the key of a product, or std::nullopt if cuBLASLt cannot compute it: f64; an activation other than GELU in
/// the tanh form with its input stored (cuBLASLt's ReLU turns NaN into 0); a bias that has another dtype than the
/// result (for f32 results of codes cuBLASLt wants bf16, ours is f32) or does not begin at a multiple of 16 bytes;
/// operands with neither contiguous rows nor contiguous columns; irregular batches. The input of a GELU, stored or read
/// for its derivative, must begin at a multiple of 16 bytes and its rows at multiples of 8 elements (cublasLt.h, on
/// EPILOGUE_AUX_LD).
///
/// For codes, cuBLASLt multiplies only K-major operands ("TN"), never e5m2 by e5m2, and everything must begin at a
/// multiple of 16 bytes, rows of the result included (cublasLtMatmul's reference, "to use FP8 kernels").
std::optional<PlanKey> plan_key(const GemmArgs& g);

/// Returns a key and its algorithm as one line of text. Without an algorithm, the line says that cuBLASLt has none for
/// this key.
std::string plan_line(const PlanKey& key, const std::optional<cublasLtMatmulAlgo_t>& algorithm);
/// The content of a line that plan_line() wrote.
struct PlanLine {
  PlanKey key;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};
/// Parses a line that plan_line() wrote. Returns std::nullopt for any other line. A line without the word "epilogue"
/// means PlanEpilogue::none.
std::optional<PlanLine> parse_plan_line(std::string_view line);

/// A deleter that calls kDestroy.
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

/// cuBLASLt's descriptors of a product. The addresses of a bias, the input of a GELU and scales are set later.
struct PlanDescriptors {
  OperationOwner operation;
  LayoutOwner first, second, result;
};
/// Returns the descriptors of a key. Throws Failure if cuBLASLt refuses one.
PlanDescriptors plan_descriptors(const PlanKey& key);

/// Limits the algorithms that cuBLASLt's heuristics propose: to `workspace` bytes, and to algorithms that add partial
/// sums in the computing type. If an epilogue follows and the result is 16 bits wide, excludes all algorithms with
/// partial sums, because cuBLASLt rounds the total to the result's dtype before the epilogue reads it (seen on an H200,
/// cuBLASLt 13.1).
PreferenceOwner plan_preference(const PlanKey& key, std::size_t workspace);

/// Throws the matching Failure unless `status` is success.
void check(cublasStatus_t status, const char* what);

}  // namespace binade::cuda
