#include <cmath>

#include "binade/amp/preflight/rules.h"
#include "binade/core/ops/binary.h"

namespace binade::amp {
namespace {

/// Returns the additive mask that an op reads, which holds 0 and a constant far below 0. Null if the op reads none.
const SurveyedOperand* mask_of(const SurveyedOp& op) {
  for (const SurveyedOperand& o : op.operands)
    if (o.given && !o.varies && o.observed && o.observed->finite() && o.observed->low <= kMaskedBelow &&
        o.observed->high <= 0)
      return &o;
  return nullptr;
}

bool reads_only_finite(const SurveyedOp& op) {
  for (const SurveyedOperand& o : op.operands)
    if (o.given && o.observed && !o.observed->finite()) return false;
  return true;
}

std::string constant_advice(DType dtype) {
  return fmt::format("use a constant that {} holds with headroom for the scores (-1e4), or add the mask in f32",
                     name_of(dtype));
}

/// True if the mask's constant, alone or added to a score, became -inf in the op's result; then fills `f`.
bool becomes_infinite(const SurveyedOp& op, PreflightFinding& f) {
  if (!op.result || !op.result->negative || !reads_only_finite(op)) return false;
  const SurveyedOperand* mask = mask_of(op);
  if (mask == nullptr && op.varies) return false;
  const double lowest = mask != nullptr ? mask->observed->low
                        : op.scalar     ? op.scalar->value(op.operands[0].observed->high)
                                        : 0;
  if (std::isinf(rounded(lowest, op.dtype))) {
    f.what = fmt::format("the mask's constant {:g} becomes -inf in {}: a completely masked row becomes nan", lowest,
                         name_of(op.dtype));
    f.trigger = value_trigger("the mask", lowest, DType::f32, rounded(lowest, op.dtype),
                              fmt::format("{:g} is -inf in {}", lowest, name_of(op.dtype)));
    return true;
  }
  f.what = fmt::format("the mask's constant {:g} and a score add up to -inf in {}", lowest, name_of(op.dtype));
  f.trigger = value_trigger("a score under the mask", -range_of(op.dtype).largest - 16 - lowest, op.dtype, lowest,
                            fmt::format("{:g} + {:g} is -inf in {}", lowest, -range_of(op.dtype).largest - 16 - lowest,
                                        name_of(op.dtype)));
  return true;
}

/// True if the mask's constant added to scores four times as large as the measured ones would be -inf; then fills `f`.
bool would_become_infinite(const SurveyedOp& op, PreflightFinding& f) {
  if (!op.is<ops::Add>() || op.dtype != DType::f16) return false;
  const SurveyedOperand* mask = mask_of(op);
  if (mask == nullptr) return false;
  const SurveyedOperand& scores = op.operands[mask == &op.operands[0] ? 1 : 0];
  constexpr double kRoundsToInfinity = 65520, kTwoBinades = 4;
  const double margin = kRoundsToInfinity + mask->observed->low;
  if (!scores.observed || !scores.observed->finite() || margin <= 0 || -scores.observed->low * kTwoBinades < margin)
    return false;
  f.what = fmt::format(
      "the mask's constant {:g} leaves scores of {:.3g} little headroom: their sum becomes -inf in f16",
      mask->observed->low, scores.observed->low);
  f.trigger = value_trigger("a score under the mask", -margin, DType::f16, mask->observed->low,
                            fmt::format("{:g} + {:g} is -inf in f16", mask->observed->low, -margin));
  return true;
}

/// True if the op subtracted -inf from -inf, as x - max(x) does in a row with only -inf.
bool subtracts_masks(const SurveyedOp& op) { return op.masked && op.breaks && op.result->nan; }

}  // namespace

void find_mask_constants(const Inspection& in, Findings& findings) {
  for (const SurveyedOp& op : in.survey.ops()) {
    if (!is_half(op.dtype)) continue;
    PreflightFinding f = finding_at(op, "mask-constant", Severity::kMeasured);
    if (!becomes_infinite(op, f)) {
      f.severity = Severity::kPossible;
      if (!would_become_infinite(op, f)) continue;
    }
    f.advice = constant_advice(op.dtype);
    findings.push_back(std::move(f));
  }
}

void find_masked_rows(const Inspection& in, Findings& findings) {
  for (const SurveyedOp& op : in.survey.ops()) {
    if (op.masked_rows == 0 && !subtracts_masks(op)) continue;
    PreflightFinding f = finding_at(op, "masked-row", Severity::kMeasured);
    const bool fused = op.info->family == OpFamily::kAttention;
    if (op.masked_rows > 0)
      f.what = fmt::format("every entry is masked in {} row{} of the batch: {}", op.masked_rows,
                           op.masked_rows == 1 ? "" : "s",
                           fused ? "attention gives 0 there" : "a softmax without a visible entry gives nan");
    else
      f.what = "it computes nan from masks: -inf minus -inf";
    f.trigger = value_trigger("a row of the mask", -std::numeric_limits<double>::infinity(), DType::f32, 0,
                              fused ? "a row of -inf gives 0" : "a row of -inf gives nan");
    f.advice = "leave each row one visible entry";
    findings.push_back(std::move(f));
  }
}

}  // namespace binade::amp
