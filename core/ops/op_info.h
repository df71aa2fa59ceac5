#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include "binade/core/ops/value_range.h"
#include "binade/core/precision.h"

namespace binade {

/// What an op does at a non-finite input.
enum class NonFinite {
  kPropagates,  ///< NaN in, NaN out; an inf gives what the formula gives
  kMasks,       ///< -inf is a declared, legal value (masks before a softmax)
};

/// The op's numeric promise, as data. The conformance suite checks it; pre-flight and diagnosis judge by it.
struct Numerics {
  DType accumulate = DType::f32;
  double safe_low = -std::numeric_limits<double>::infinity();  ///< inputs in [safe_low, safe_high] cannot overflow f32
  double safe_high = std::numeric_limits<double>::infinity();
  NonFinite non_finite = NonFinite::kPropagates;
  double ulp_f32 = 2;   ///< error bound of one element in ulp of the result, f32 (sums: beside n 2^-24 sum|ab|)
  double ulp_half = 1;  ///< the same for f16 and bf16, after the one rounding
};

/// A number at which an op's value or its derivative is infinite or undefined: 0 for a divisor. Where the numerics have
/// a safe range, the op has no value beyond its ends.
struct Singularity {
  int input = -1;                ///< which input it lies in; -1: there is none
  double at = 0;                 ///< that input's value
  bool derivative_only = false;  ///< the value is finite there, as that of sqrt at 0
};

/// What kind of op it is, for rules that judge by the kind.
enum class OpFamily {
  kOther,
  kProduct,          ///< sums of products: linear, convolutions
  kAttention,        ///< a product of queries and keys, a softmax over it, a product with values
  kNorm,             ///< divides by a spread
  kLoss,             ///< what a step is judged by: a loss that is none of the two below
  kProbabilityLoss,  ///< compares probabilities, given as such or as logits: bce, cross entropy, Dice
  kDistanceLoss,     ///< of differences between predictions and targets: 0 or more
  kReduction,        ///< adds many values up
  kLookup,           ///< copies rows of a table
};
constexpr bool is_loss(OpFamily family) {
  return family == OpFamily::kLoss || family == OpFamily::kProbabilityLoss || family == OpFamily::kDistanceLoss;
}
constexpr bool is_product(OpFamily family) { return family == OpFamily::kProduct || family == OpFamily::kAttention; }

/// Where the magnitudes of an op's results are observed (core/observation.h).
enum class Observed {
  kByScan,     ///< apply() reads the results: for ops whose loops are not Binade's
  kByKernels,  ///< the kernels that store them
  kMoves,      ///< nowhere: they are values that were there before
};

/// What an op states about itself, beside its forward and backward. What it leaves out is not claimed: an op without
/// singularities is never reported for one.
struct OpInfo {
  const char* name{};  ///< the op unit's file basename or, in a family file, the function's name
  /// The inputs in order, for checks and messages: "x, w, bias?". A "?" may be left out, "x..." is one or more. Empty:
  /// any number, none left out
  const char* inputs = "";
  PrecisionClass precision = PrecisionClass::kAsIs;
  Numerics numerics{};
  /// Bit i: input i is cast by the policy. Indices, masks and fp32 parameters are not
  std::uint32_t policy_inputs = ~0u;
  /// Bit i: on a GPU input i, a leaf in f32, is read as its copy in the 16 bits of the products, because libraries want
  /// it so
  std::uint32_t low_on_gpu = 0;
  bool differentiable = true;
  OpFamily family = OpFamily::kOther;
  Observed observed = Observed::kByScan;
  /// Backward reads gy, and adds to what GradSink::add_to() gives, where they are channel slices. False: both are dense
  bool slices = false;

  // ---- facts that pre-flight, telemetry and diagnosis judge by ----------------------------------

  Singularity singularities[4]{};
  /// The values that output 0 can have. Null: of a family, no bounds are known; else the values of the measured batch
  /// stand for them
  RangeFunction range = nullptr;
  ValueRange targets{};         ///< of a loss: legal values of input 1; beyond them the loss falls without end
  bool same_values = false;     ///< output 0 has input 0's values, in another shape, order or dtype
  bool saturates = false;       ///< reaches an end of its range, or of its dtype's, at a moderate input: sigmoid, exp
  bool carries_masks = false;   ///< its result is a mask where an input is: -inf or large negative numbers
  std::uint32_t mask_inputs{};  ///< bit i: input i may hold the -inf of a mask

  constexpr bool takes_mask(std::size_t input) const { return input < 32 && (mask_inputs >> input & 1u) != 0; }
  constexpr bool singular() const { return singularities[0].input >= 0; }
  /// The singularities stated.
  constexpr std::span<const Singularity> stated_singularities() const {
    std::size_t count = 0;
    while (count < std::size(singularities) && singularities[count].input >= 0) ++count;
    return std::span(singularities).first(count);
  }
};

}  // namespace binade
