#pragma once

#include <cstdint>
#include <string_view>

namespace binade::amp {

/// Outcome of an experiment.
enum class Outcome : std::uint8_t { kNotMade, kNo, kYes };
constexpr Outcome outcome_of(bool yes) { return yes ? Outcome::kYes : Outcome::kNo; }

/// The outcomes of the experiments with the first bad op.
struct Evidence {
  Outcome singular = Outcome::kNotMade;           ///< at its operands the op has no finite value in f64 either
  Outcome beyond_range = Outcome::kNotMade;       ///< its value in f64 is beyond the range of its dtype
  Outcome lower_scale_helps = Outcome::kNotMade;  ///< the step is finite at a loss scale of 1
  Outcome f32_helps = Outcome::kNotMade;          ///< the step is finite with the op, or with all ops, in f32
  Outcome operand_is_masked = Outcome::kNotMade;  ///< a row of an operand contains only the -inf of a mask
  Outcome unmasking_helps = Outcome::kNotMade;    ///< the step is finite if rows with only -inf are set to 0
};

/// The possible kinds of cause. The evidence decides between them. The kind and the family of the op (a norm, a loss,
/// …) determine the CauseClass.
enum class Hypothesis : std::uint8_t {
  kLossScale,        ///< gradients fit at a lower loss scale
  kOverflow,         ///< the value exceeds the range of the dtype
  kSingularity,      ///< the operands are at a singularity, or outside of the op's domain
  kRoundedConstant,  ///< an eps, a floor or a bound was rounded away, so that the operands are at a singularity
  kFullyMaskedRow,   ///< every entry of a row is masked
  kNone
};

/// The first hypothesis that no outcome contradicts, and for which every predicted "yes" came out as "yes".
struct Conclusion {
  Hypothesis hypothesis = Hypothesis::kNone;
  bool is_proven = false;  ///< every other hypothesis is contradicted by at least one outcome
};
/// Compares the evidence with the predictions of every hypothesis.
Conclusion best_hypothesis(const Evidence& evidence);

}  // namespace binade::amp
