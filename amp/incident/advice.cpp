#include <fmt/ranges.h>

#include "binade/amp/incident/diagnosis.h"
#include "binade/amp/suggestions.h"
#include "binade/amp/text.h"
#include "binade/core/error.h"

namespace binade::amp {
namespace {

std::string location_of(const FirstBad& bad) { return quoted_op(bad.op, bad.module); }

/// Describes the gaps between the numbers of a 16-bit dtype; for any other dtype, those of f16 and of bf16.
std::string gaps_of(std::string_view dtype) {
  const std::string_view f16 = "f16 has no number between 0 and 6e-8, nor between 1 and 1.001",
                         bf16 = "bf16 has no number between 1 and 1.008";
  if (dtype == name_of(DType::f16)) return std::string(f16);
  if (dtype == name_of(DType::bf16)) return std::string(bf16);
  return fmt::format("{}, and {}", f16, bf16);
}

/// Returns the settings that compute the ops of Diagnosis::promote in f32; empty if there are none.
std::string promotion(const Diagnosis& d) {
  std::vector<std::string> settings;
  for (const std::string& target : d.promote)
    settings.push_back(target == "*" ? suggest_f32() : suggest_dtype(without_root(target), DType::f32));
  return fmt::format("{}", fmt::join(settings, " "));
}

std::string advise_on_range(const Diagnosis& d, const FirstBad& bad) {
  const std::string what = fmt::format("the result of {} is beyond the range of {}", location_of(bad), bad.dtype);
  if (d.promote == std::vector<std::string>{"*"})
    return fmt::format(
        "{}, and so are later results: a lower learning rate or a norm before it keeps activations in range; or "
        "compute in f32 ({})",
        what, promotion(d));
  if (!d.promote.empty())
    return fmt::format("{}: compute it in f32 ({}), or keep its input smaller with a norm before it", what,
                       promotion(d));
  return fmt::format(
      "{}, in f32 as well: weights or inputs are far too large; a lower learning rate or clipping ({}) keeps them "
      "small",
      what, suggest_clipping());
}

std::string advise_on_rounding(const Diagnosis& d, const FirstBad& bad) {
  return fmt::format(
      "{} is at a singularity in 16 bits only, because its operand was rounded: {}; choose a larger eps, floor or "
      "bound, or compute the operand in f32{}",
      location_of(bad), gaps_of(bad.dtype), d.promote.empty() ? "" : " (" + promotion(d) + ")");
}

/// Returns the advice if an op or the closure threw a DataError.
std::string advise_on_refusal(const Diagnosis& d, const FirstBad& bad) {
  const std::string by_op = bad.refusal_advice.empty() ? ""
                                                       : fmt::format("; {} advises: {}", bad.op, bad.refusal_advice);
  if (bad.op.empty()) return "the closure refused the batch: compare the batch with what its error asks for" + by_op;
  const bool proven = d.confidence == Confidence::kProven;
  if (proven && d.cause == CauseClass::kBadInput)
    return fmt::format("{} has no result for a sample of the batch: check its labels, indices and values{}",
                       location_of(bad), by_op);
  if (proven)
    return fmt::format("{} has no result for what was computed from weights alone, so that no sample is to blame{}",
                       location_of(bad), by_op);
  return fmt::format(
      "{} has no result for its operands, whichever sample is left out: check what they are computed from{}",
      location_of(bad), by_op);
}

}  // namespace

std::string advise(const Diagnosis& d) {
  if (d.cause == CauseClass::kNotReproducible)
    return "a replay of the step gave different bits: look for a race in user code, or test the hardware";
  if (!d.first_bad && d.cause == CauseClass::kGradientExplosion)
    return fmt::format("earlier weights are better: lower the learning rate, warm it up ({}), or clip by norm ({})",
                       suggest_warmup(), suggest_clipping());
  if (!d.first_bad)
    return fmt::format(
        "no op has finite operands and a non-finite result; compute in f32 ({}) to see whether precision matters",
        suggest_f32());
  const FirstBad& bad = *d.first_bad;
  if (!bad.refusal.empty()) return advise_on_refusal(d, bad);
  switch (d.cause) {
    case CauseClass::kLossScaleOverflow:
      return fmt::format("lower the loss scale; a dynamic one ({}) adjusts itself", suggest_dynamic_loss_scale());
    case CauseClass::kGradientExplosion:
      return fmt::format(
          "gradients are too large in any precision: clip by norm ({}), lower the learning rate, or warm it up ({})",
          suggest_clipping(), suggest_warmup());
    case CauseClass::kActivationOverflow: return advise_on_range(d, bad);
    case CauseClass::kAttentionLogitOverflow:
      if (bad.info != nullptr && bad.info->family == OpFamily::kAttention)
        return "queries and keys are so large that their products exceed the range of f32: normalize them, or "
               "lower the learning rate";
      return fmt::format(
          "query times key is beyond the range of {}: use the fused attention ({}), which keeps logits in f32, or "
          "normalize queries and keys",
          bad.dtype, suggest_fused_attention());
    case CauseClass::kFullyMaskedRow:
      return fmt::format(
          "{} got a row in which every entry is masked: give such rows one visible entry, or use the "
          "built-in attention, which defines them as 0",
          location_of(bad));
    case CauseClass::kNormalizationSingularity:
      return fmt::format("{} got a row of zero variance, and its eps is too small: use eps >= 1e-5", location_of(bad));
    case CauseClass::kArithmeticSingularity:
      return fmt::format("{} was evaluated at a singularity: clamp its operand away from it, or add an eps inside",
                         location_of(bad));
    case CauseClass::kLossFunctionSingularity:
      if (bad.info != nullptr && bad.info->singular())
        return fmt::format("{} was evaluated at a singularity: use the form on logits (bce_with_logits, cross_entropy)",
                           location_of(bad));
      return fmt::format(
          "{} has no value at its operands: see that at least one target counts, and that no class with a share of the "
          "loss has a logit of -inf or a probability of 0",
          location_of(bad));
    case CauseClass::kLibraryFault:
      return fmt::format(
          "{} computed {} wrongly: report the plan to its authors, and use another version of the library",
          d.library ? d.library->library : "a library", location_of(bad));
    case CauseClass::kRoundedConstant: return advise_on_rounding(d, bad);
    case CauseClass::kOptimizerUnderflow: return "raise the optimizer's eps";
    case CauseClass::kBadInput: return "the batch holds a NaN or an infinity: check this sample, or leave it out";
    case CauseClass::kCorruptedState:
      if (d.confidence != Confidence::kProven)
        return fmt::format(
            "{} read a tensor that is not finite and that stays if samples are left out: keep it finite, or make it a "
            "buffer of the model (nn::Buffer), which a rollback restores",
            location_of(bad));
      return fmt::format("{} was not finite before the step began: go back to an earlier checkpoint", bad.tensor);
    case CauseClass::kReductionOverflow:
      return fmt::format("{} adds up to more than {} can hold: sum in f32, or take a mean in pieces", location_of(bad),
                         bad.dtype);
    case CauseClass::kSilentUnderflow:
      return fmt::format("raise the loss scale ({}), or compute this part in bf16 or f32 ({})",
                         suggest_dynamic_loss_scale(),
                         suggest_dtype(override_target(bad.op, bad.op_path()), DType::f32));
    case CauseClass::kNotReproducible: break;  // has returned at the top
    case CauseClass::kNotProven:
      if (d.op_is_wrong)
        return fmt::format(
            "{} gives {} for all operands that were tried, whatever their values: look for a defect in "
            "the op itself",
            location_of(bad), bad.value);
      return d.proof.empty() ? fmt::format("no change could be tried; look at {} and its operands", location_of(bad))
                             : fmt::format(
                                   "none of the changes that were tried made the step finite; look at {} and its "
                                   "operands in a replay",
                                   location_of(bad));
  }
  return "";
}

}  // namespace binade::amp
