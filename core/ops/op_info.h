#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "binade/core/ops/value_range.h"
#include "binade/core/precision.h"

namespace binade {

/// Effect of a non-finite input.
enum class NonFinite {
  kPropagates,  ///< NaN gives NaN; inf gives what the formula gives
  kMasks,       ///< -inf is a legal value (masks before a softmax)
};

/// Numerical properties that an op promises. The conformance suite checks them; pre-flight and diagnosis rely on them.
struct Numerics {
  DType accumulate = DType::f32;
  double safe_low = -std::numeric_limits<double>::infinity();  ///< inputs in [safe_low, safe_high] do not overflow f32
  double safe_high = std::numeric_limits<double>::infinity();
  NonFinite non_finite = NonFinite::kPropagates;
  double ulp_f32 = 2;   ///< error bound of one element in ulp of the result, f32; sums add n 2^-24 sum|ab|
  double ulp_half = 1;  ///< the same bound for f16 and bf16, after the one rounding
};

/// An input value at which the op's value or derivative is infinite or undefined, such as 0 for a divisor. Outside the
/// safe range of its numerics the op has no value.
struct Singularity {
  int input = -1;                ///< index of the input; -1: no singularity
  double at = 0;                 ///< value of that input
  bool derivative_only = false;  ///< true if only the derivative is singular, like that of sqrt at 0
};

/// Kind of op, for rules that apply to a kind.
enum class OpFamily {
  kOther,
  kProduct,          ///< sums of products: linear, convolutions
  kAttention,        ///< a product of queries and keys, a softmax over it, a product with values
  kNorm,             ///< divides by a standard deviation
  kLoss,             ///< the loss of a step, if none of the following two
  kProbabilityLoss,  ///< compares probabilities, given directly or as logits: bce, cross entropy, Dice
  kDistanceLoss,     ///< depends on the difference between prediction and target, >= 0
  kReduction,        ///< sums many values
  kLookup,           ///< copies rows of a table
};
constexpr bool is_loss(OpFamily family) {
  return family == OpFamily::kLoss || family == OpFamily::kProbabilityLoss || family == OpFamily::kDistanceLoss;
}
constexpr bool is_product(OpFamily family) { return family == OpFamily::kProduct || family == OpFamily::kAttention; }

/// Where the largest magnitude of an op's results is observed (core/observation.h).
enum class Observed {
  kByScan,     ///< apply() reads the results; for ops with loops outside Binade
  kByKernels,  ///< the kernels observe while they store
  kMoves,      ///< not at all, because the results are copies of existing values
};

/// Static description of an op. Defaults claim nothing: an op that states no singularities is never reported for one.
struct OpInfo {
  const char* name{};  ///< base name of the op's header or, in a header with several ops, the name of its function
  /// Names of the inputs in order, for checks and messages: "x, w, bias?". "?" marks an optional input, "x..." one or
  /// more. Empty: any number, none optional
  const char* inputs = "";
  PrecisionClass precision = PrecisionClass::kAsIs;
  Numerics numerics{};
  /// Bit i: the policy may cast input i. Clear for indices, masks and f32 parameters
  std::uint32_t policy_inputs = ~0u;
  /// Bit i: on a GPU, input i, an f32 leaf, is read as its copy in the 16-bit dtype of the products, as libraries
  /// require
  std::uint32_t low_on_gpu = 0;
  bool differentiable = true;
  OpFamily family = OpFamily::kOther;
  Observed observed = Observed::kByScan;
  /// True if backward accepts channel slices in gy and from GradSink::add_to(); otherwise both are dense
  bool slices = false;

  // ---- used by pre-flight, telemetry and diagnosis -----------------------------------------------

  Singularity singularities[4]{};
  /// Returns the values that output 0 can have. Null: for ops of a family no bounds, otherwise the measured values of
  /// the batch are used
  RangeFunction range = nullptr;
  ValueRange targets{};      ///< of a loss: legal values of input 1, outside of which the loss is unbounded below
  bool same_values = false;  ///< true if output 0 has the values of input 0, in another shape, order or dtype
  bool saturates =
      false;  ///< true if a moderate input gives an end of the range, or of the dtype's range: sigmoid, exp
  bool carries_masks = false;   ///< true if a mask (-inf or large negative numbers) in an input gives a mask
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
