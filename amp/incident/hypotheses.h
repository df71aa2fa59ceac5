#pragma once

#include <cstdint>
#include <string_view>

namespace binade::amp {

/// Outcome of an experiment.
enum class Outcome : std::uint8_t { kNotMade, kNo, kYes };
constexpr Outcome outcome_of(bool yes) { return yes ? Outcome::kYes : Outcome::kNo; }

/// What experiments with the first bad op showed.
struct Evidence {
  Outcome singular = Outcome::kNotMade;           ///< at its operands the op has no finite value in f64 either
  Outcome beyond_range = Outcome::kNotMade;       ///< in f64 its value is finite, and beyond the range of its dtype
  Outcome lower_scale_helps = Outcome::kNotMade;  ///< the step is finite at a loss scale of 1
  Outcome f32_helps = Outcome::kNotMade;          ///< the step is finite with the op, or with all ops, in f32
  Outcome operand_is_masked = Outcome::kNotMade;  ///< the only values that are not finite in the operands are masks
  Outcome unmasking_helps = Outcome::kNotMade;    ///< the step is finite if rows with only -inf are set to 0
};

/// Kinds of cause between which the evidence decides. What the op is (a norm, a loss, …) says the rest of the class.
enum class Hypothesis : std::uint8_t {
  kLossScale,        ///< gradients fit at a lower loss scale
  kOverflow,         ///< the value exceeds the range of the dtype
  kSingularity,      ///< the operands are at a singularity, or outside of the op's domain
  kRoundedConstant,  ///< rounding put the operands there: an eps, a floor or a bound was rounded away
  kFullyMaskedRow,   ///< every entry of a row is masked
  kNone
};

/// The first hypothesis of which every "yes" that it predicts was seen, and which no outcome contradicts.
struct Conclusion {
  Hypothesis hypothesis = Hypothesis::kNone;
  bool is_proven =
      false;  ///< its own test came out as it predicts, and every rival predicted another outcome of some experiment
};
/// Compares the evidence with the predictions of every hypothesis.
Conclusion best_hypothesis(const Evidence& evidence);

}  // namespace binade::amp
