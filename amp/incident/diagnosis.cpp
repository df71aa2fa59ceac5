#include "amp/incident/diagnosis.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace binade::amp {
namespace {

bool is(const FirstBad& bad, OpFamily family) { return bad.info->family == family; }
bool takes_masks(const FirstBad& bad) { return bad.info->numerics.non_finite == NonFinite::kMasks; }
bool has_pole(const FirstBad& bad) { return !std::isnan(bad.info->numerics.pole); }
bool in_attention(const FirstBad& bad) {
  return bad.module.find("attention") != std::string::npos || bad.module.find("attn") != std::string::npos;
}

/// Whether two attempts came to the same numbers, bit for bit.
bool same_outcome(const StepState& a, const StepState& b) {
  return a.cause == b.cause && std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss) &&
         a.scan.words == b.scan.words && a.bad_buffer == b.bad_buffer;
}

/// The replays made so far and what they showed.
class Inquiry {
 public:
  Inquiry(const Replay& replay, Diagnosis& diagnosis) : replay_(replay), diagnosis_(diagnosis) {}

  StepState run(const Variant& variant, TapeObserver* observer = nullptr) {
    ++diagnosis_.replays;
    return replay_(variant, observer);
  }
  bool finite(const Variant& variant) {
    const bool finite = run(variant).commits();
    diagnosis_.proof.push_back({variant.name, finite});
    return finite;
  }

 private:
  const Replay& replay_;
  Diagnosis& diagnosis_;
};

struct Finding {
  CauseClass cause;
  Confidence confidence;
};

/// What the place alone says, whatever the precision.
Finding judge_place(const FirstBad& bad, bool finite_in_f32) {
  if (bad.direction == "input") return {CauseClass::kBadInput, Confidence::kProven};
  if (bad.direction == "state") return {CauseClass::kCorruptedState, Confidence::kProven};
  if (finite_in_f32) {
    if (is(bad, OpFamily::kReduction)) return {CauseClass::kReductionOverflow, Confidence::kProven};
    if (bad.op == "matmul" && in_attention(bad)) return {CauseClass::kAttentionLogitOverflow, Confidence::kProven};
    return {CauseClass::kActivationOverflow, Confidence::kProven};
  }
  if (bad.op == "attention") return {CauseClass::kAttentionLogitOverflow, Confidence::kLikely};
  if (takes_masks(bad)) return {CauseClass::kFullyMaskedRow, Confidence::kLikely};
  if (is(bad, OpFamily::kNorm)) return {CauseClass::kNormalizationPole, Confidence::kLikely};
  if (is(bad, OpFamily::kLoss)) return {CauseClass::kLossFunctionPole, Confidence::kLikely};
  if (has_pole(bad)) return {CauseClass::kArithmeticPole, Confidence::kLikely};
  if (is(bad, OpFamily::kReduction)) return {CauseClass::kReductionOverflow, Confidence::kLikely};
  // A product of finite operands is NaN only where partial sums overflowed to both infinities.
  if (bad.direction == "forward" && (bad.value != "nan" || is(bad, OpFamily::kProduct)))
    return {CauseClass::kActivationOverflow, Confidence::kLikely};
  if (bad.direction == "backward") return {CauseClass::kGradientExplosion, Confidence::kLikely};
  return {CauseClass::kNotProven, Confidence::kNotProven};
}

/// What an override names to reach that op.
const std::string& target_of(const FirstBad& bad) { return bad.module.empty() ? bad.op : bad.module; }

std::string place_of(const FirstBad& bad) {
  return bad.module.empty() ? fmt::format("'{}'", bad.op) : fmt::format("'{}' in {}", bad.op, bad.module);
}

std::string advise_on_range(const Diagnosis& d, const FirstBad& bad) {
  const auto helps = [&](std::string_view variant) {
    return std::ranges::any_of(d.proof, [&](const Proof& p) { return p.variant == variant && p.finite; });
  };
  const std::string what = fmt::format("the result of {} is beyond the range of {}", place_of(bad), bad.dtype);
  if (helps("op-fp32"))
    return fmt::format("{}: compute it in f32 (--override '{}=fp32'), or keep its input smaller with a norm before it",
                       what, target_of(bad));
  if (helps("all-fp32"))
    return fmt::format(
        "{}, and so is more after it: a lower learning rate or a norm before it keeps activations in "
        "range; --precision fp32 does without",
        what);
  return fmt::format(
      "{}, in f32 as well: weights or inputs are far too large; a lower learning rate or clipping keeps "
      "them small",
      what);
}

std::string advise(const Diagnosis& d) {
  if (!d.first_bad)
    return "no op was found that turned finite operands into something else; run with fp32 to see whether precision "
           "matters";
  const FirstBad& bad = *d.first_bad;
  switch (d.cause) {
    case CauseClass::kLossScaleOverflow: return "lower the loss scale; the dynamic one does it by itself";
    case CauseClass::kGradientExplosion:
      return "gradients are too large in any precision: clip by norm, lower the learning rate, or warm it up";
    case CauseClass::kActivationOverflow: return advise_on_range(d, bad);
    case CauseClass::kAttentionLogitOverflow:
      if (bad.op == "attention")
        return "queries and keys are so large that their products leave f32: normalize them, or "
               "lower the learning rate";
      return fmt::format(
          "query times key is beyond the range of {}: use the fused attention, which keeps logits in f32, "
          "or normalize queries and keys",
          bad.dtype);
    case CauseClass::kFullyMaskedRow:
      return fmt::format(
          "{} got a row in which every entry is masked: give such rows one visible entry, or use the "
          "built-in attention, which defines them as 0",
          place_of(bad));
    case CauseClass::kNormalizationPole:
      return fmt::format("{} met a row without spread and an eps too small to show: use eps >= 1e-5", place_of(bad));
    case CauseClass::kArithmeticPole:
      return fmt::format("{} was evaluated at its pole: clamp its operand away from it, or add an eps inside",
                         place_of(bad));
    case CauseClass::kLossFunctionPole:
      return fmt::format("{} was evaluated at its pole: use the form on logits (bce_with_logits, cross_entropy)",
                         place_of(bad));
    case CauseClass::kOptimizerUnderflow: return "raise the optimizer's eps";
    case CauseClass::kBadInput:
      return "the batch itself holds something that is not finite: check this sample, or leave it out";
    case CauseClass::kCorruptedState:
      if (bad.tensor != bad.parameter)
        return fmt::format(
            "{} is beyond the range of {}: compute that layer in f32 (--override '{}=fp32'), or keep its "
            "weights small",
            bad.parameter, bad.dtype, target_of(bad));
      return fmt::format("{} was not finite before the step began: go back to an earlier checkpoint", bad.tensor);
    case CauseClass::kReductionOverflow:
      return fmt::format("{} adds up to more than {} can hold: sum in f32, or take a mean in pieces", place_of(bad),
                         bad.dtype);
    case CauseClass::kSilentUnderflow: return "raise the loss scale, or compute this part in bf16 or f32";
    case CauseClass::kNotReproducible:
      return "the same step gave other bits when it was run again: look for a race in user code, or test the hardware";
    case CauseClass::kNotProven: return "no single change made the step finite; replay it under a debugger";
  }
  return "";
}

}  // namespace

std::string_view name_of(CauseClass cause) {
  static constexpr std::array<std::string_view, 15> kNames = {
      "loss-scale-overflow", "gradient-explosion", "activation-overflow", "attention-logit-overflow",
      "fully-masked-row",    "normalisation-pole", "arithmetic-pole",     "loss-function-pole",
      "optimizer-underflow", "bad-input",          "corrupted-state",     "reduction-overflow",
      "silent-underflow",    "not-reproducible",   "not-proven"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view name_of(Confidence confidence) {
  static constexpr std::array<std::string_view, 3> kNames = {"proven", "likely", "not-proven"};
  return kNames[static_cast<std::size_t>(confidence)];
}

Diagnosis diagnose(const StepState& failed, std::int64_t batch, const Replay& replay) {
  Diagnosis diagnosis;
  Inquiry inquiry(replay, diagnosis);
  FirstBadSearch search(batch);
  const StepState again = inquiry.run({}, &search);
  diagnosis.first_bad = search.found();
  diagnosis.reproducible = same_outcome(failed, again);
  const auto concluded = [&](Finding finding) {
    diagnosis.cause = finding.cause;
    diagnosis.confidence = finding.confidence;
    diagnosis.advice = advise(diagnosis);
    return diagnosis;
  };
  if (!diagnosis.reproducible && again.commits()) return concluded({CauseClass::kNotReproducible, Confidence::kProven});
  if (failed.cause == AbortCause::kUpdate) return concluded({CauseClass::kGradientExplosion, Confidence::kLikely});
  if (!diagnosis.first_bad) return concluded({CauseClass::kNotProven, Confidence::kNotProven});
  const FirstBad& bad = *diagnosis.first_bad;
  if (bad.direction == "input" || bad.direction == "state") return concluded(judge_place(bad, false));
  if (failed.loss_scale != 1 && inquiry.finite({.name = "scale-1", .scale = 1.0}))
    return concluded({CauseClass::kLossScaleOverflow, Confidence::kProven});
  bool precision = false;  // at scale 1 from here on: gradients that overflow once forward is mended are the scaler's
  if (bad.dtype == "f16" || bad.dtype == "bf16") {
    const std::string& target = target_of(bad);
    precision = inquiry.finite({.name = "op-fp32", .promote = {{target, DType::f32}}, .scale = 1.0});
    if (!precision) precision = inquiry.finite({.name = "all-fp32", .promote = {{"*", DType::f32}}, .scale = 1.0});
  }
  return concluded(judge_place(bad, precision));
}

}  // namespace binade::amp
