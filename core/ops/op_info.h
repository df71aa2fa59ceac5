#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "binade/core/ops/value_range.h"
#include "binade/core/precision.h"

namespace binade {

/// How an op treats non-finite inputs.
enum class NonFinite {
  kPropagates,  ///< NaN gives NaN; inf gives what the formula gives
  kMasks,       ///< like kPropagates, but -inf is a legal value: a mask before a softmax
};

/// Numerical properties that an op promises. The conformance suite checks them; pre-flight and diagnosis rely on them.
struct Numerics {
  DType accumulate = DType::f32;  ///< dtype of sums
  /// For inputs in [safe_low, safe_high] the results do not overflow f32
  double safe_low = -std::numeric_limits<double>::infinity();
  double safe_high = std::numeric_limits<double>::infinity();
  NonFinite non_finite = NonFinite::kPropagates;
  /// Error bound of one element of an f32 result in ulp of the result. For a sum of n products a b, n 2^-24 sum|a b| is
  /// added to it
  double ulp_f32 = 2;
  double ulp_half = 1;  ///< error bound for f16 and bf16 results, in their ulp, rounding of the result included
};

/// An input value at which the op's value or derivative is infinite or undefined, such as 0 for a divisor. Inputs
/// outside [safe_low, safe_high] of the op's numerics may have no value either; they are not listed.
struct Singularity {
  int input = -1;                ///< index of the input; -1: no singularity
  double at = 0;                 ///< value of that input
  bool derivative_only = false;  ///< true if only the derivative is singular, like that of sqrt at 0
};

/// Kind of op. Pre-flight, warnings and diagnosis have rules for each kind.
enum class OpFamily {
  kOther,
  kProduct,          ///< sums of products: linear, convolutions
  kAttention,        ///< a product of queries and keys, a softmax over it, a product with values
  kNorm,             ///< divides by a standard deviation
  kLoss,             ///< a loss that is neither of the following two kinds
  kProbabilityLoss,  ///< compares probabilities, given directly or as logits: bce, cross entropy, Dice
  kDistanceLoss,     ///< depends on the difference between prediction and target, >= 0
  kReduction,        ///< sums many values
  kLookup,           ///< copies rows of a table
};
constexpr bool is_loss(OpFamily family) {
  return family == OpFamily::kLoss || family == OpFamily::kProbabilityLoss || family == OpFamily::kDistanceLoss;
}
constexpr bool is_product(OpFamily family) { return family == OpFamily::kProduct || family == OpFamily::kAttention; }

/// How the largest magnitude of an op's results is observed (core/observation.h).
enum class Observed {
  kByScan,     ///< apply() reads the results again; for ops that do not compute with Binade's kernels
  kByKernels,  ///< the kernels compute it as they store the results
  kMoves,      ///< not observed, because the results are copies of existing values
};

/// Static description of an op. A default means that nothing is claimed: an op without stated singularities, for
/// example, is never reported for one.
struct OpInfo {
  const char* name{};  ///< base name of the op's header or, in a header with several ops, the name of its function
  /// Names of the inputs in order, for checks and messages: "x, w, bias?". "?" marks an optional input, "x..." one or
  /// more. Empty: any number, none optional
  const char* inputs = "";
  PrecisionClass precision = PrecisionClass::kAsIs;
  Numerics numerics{};
  /// Bit i: the policy may cast input i. Clear for indices, masks and f32 parameters
  std::uint32_t policy_inputs = ~0u;
  /// Bit i: on a GPU, if input i is an f32 leaf and products are 16-bit, the op reads a copy of it in their dtype,
  /// because GPU libraries require it
  std::uint32_t low_on_gpu = 0;
  bool differentiable = true;
  OpFamily family = OpFamily::kOther;
  Observed observed = Observed::kByScan;
  /// True if backward accepts channel slices in gy and from GradSink::add_to(); otherwise both are dense
  bool slices = false;

  // ---- used by pre-flight, telemetry and diagnosis -----------------------------------------------

  Singularity singularities[4]{};
  /// Computes bounds of the values of output 0. If null, an op with a family has no bounds; for any other op, the
  /// values measured on the batch are used
  RangeFunction range = nullptr;
  ValueRange targets{};      ///< if the op is a loss: legal values of input 1; outside them the loss is unbounded below
  bool same_values = false;  ///< true if output 0 has the values of input 0, in another shape, order or dtype
  /// True if a moderate input already gives a limit of the op's range (sigmoid) or of the dtype's range (exp)
  bool saturates = false;
  /// True if masked elements (-inf or large negative numbers) of an input stay masked in the output
  bool carries_masks = false;
  std::uint32_t mask_inputs{};  ///< bit i: input i may contain the -inf of a mask

  constexpr bool takes_mask(std::size_t input) const { return input < 32 && (mask_inputs >> input & 1u) != 0; }
  constexpr bool singular() const { return singularities[0].input >= 0; }
  constexpr std::span<const Singularity> stated_singularities() const {
    std::size_t count = 0;
    while (count < std::size(singularities) && singularities[count].input >= 0) ++count;
    return std::span(singularities).first(count);
  }
};

}  // namespace binade
