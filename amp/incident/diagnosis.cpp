#include "binade/amp/incident/diagnosis.h"

#include <cmath>
#include <tuple>

#include "binade/amp/incident/damage.h"
#include "binade/amp/incident/hypotheses.h"
#include "binade/amp/incident/library_verdict.h"
#include "binade/amp/incident/refusal.h"
#include "binade/amp/incident/sample_search.h"
#include "binade/amp/incident/singularity_guard.h"
#include "binade/amp/incident/source_place.h"
#include "binade/amp/text.h"
#include "binade/core/ops/cast.h"

namespace binade::amp {
namespace {

bool is(const FirstBad& bad, OpFamily family) { return bad.info->family == family; }
bool is_loss(const FirstBad& bad) { return is_loss(bad.info->family); }
bool takes_masks(const FirstBad& bad) { return bad.info->numerics.non_finite == NonFinite::kMasks; }

/// True if two attempts have bit-identical results.
bool same_outcome(const Attempt& a, const Attempt& b) {
  return a.cause == b.cause && std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss) &&
         a.scan.words == b.scan.words && a.bad_buffer == b.bad_buffer;
}

struct Finding {
  CauseClass cause = CauseClass::kNotProven;
  Confidence confidence = Confidence::kNotProven;
};

/// Returns the cause of a value beyond the range of its dtype.
CauseClass overflow_cause(const FirstBad& bad) {
  if (bad.direction == "backward") return CauseClass::kGradientExplosion;
  if (bad.is_attention_scores || is(bad, OpFamily::kAttention)) return CauseClass::kAttentionLogitOverflow;
  return is(bad, OpFamily::kReduction) ? CauseClass::kReductionOverflow : CauseClass::kActivationOverflow;
}

/// Returns the cause if the op has no finite value at its operands. It depends on the family of the op.
CauseClass singularity_cause(const FirstBad& bad) {
  if (is(bad, OpFamily::kNorm)) return CauseClass::kNormalizationSingularity;
  return is_loss(bad) ? CauseClass::kLossFunctionSingularity : CauseClass::kArithmeticSingularity;
}

CauseClass cause_of(Hypothesis hypothesis, const FirstBad& bad) {
  switch (hypothesis) {
    case Hypothesis::kLossScale: return CauseClass::kLossScaleOverflow;
    case Hypothesis::kOverflow: return overflow_cause(bad);
    case Hypothesis::kSingularity: return singularity_cause(bad);
    case Hypothesis::kRoundedConstant: return CauseClass::kRoundedConstant;
    case Hypothesis::kFullyMaskedRow: return CauseClass::kFullyMaskedRow;
    case Hypothesis::kNone: break;
  }
  return CauseClass::kNotProven;
}

/// True if only an overflow explains the bad value: it is a sum of finite gradients, or the result of a cast.
bool can_only_overflow(const FirstBad& bad) { return bad.is<ops::Cast>() || bad.of_sum; }

/// Returns the likely cause from the op and its bad value alone, if the experiments decide for no hypothesis.
Finding likely_cause(const FirstBad& bad) {
  if (bad.of_masked_row) return {CauseClass::kFullyMaskedRow, Confidence::kLikely};
  if (is(bad, OpFamily::kNorm) || bad.at_singularity) return {singularity_cause(bad), Confidence::kLikely};
  // A product of finite operands is NaN only if partial sums overflowed to both infinities. For other ops away from
  // singularities, no overflow explains a NaN.
  if (bad.value == "nan" && !is_product(bad.info->family) && !can_only_overflow(bad)) return {};
  return {overflow_cause(bad), Confidence::kLikely};
}

/// Returns the override target of the bad op alone. If the bad op is a cast: of all ops of its module, because a cast
/// belongs to the op that reads its result.
std::string target_of(const FirstBad& bad) {
  return fmt::format("{}/{}", bad.op_path(), bad.is<ops::Cast>() ? "*" : bad.op);
}

std::vector<PrecisionPolicy::Override> in_f32(const std::vector<std::string>& targets) {
  std::vector<PrecisionPolicy::Override> overrides;
  for (const std::string& target : targets) overrides.push_back({target, DType::f32});
  return overrides;
}

/// Finds the place in the user's program that called the first bad op.
void name_caller(Diagnosis& d) {
  if (d.first_bad) d.first_bad->called_by = user_place(std::exchange(d.first_bad->call_stack, {}));
}

/// Replays a failed step to find the cause.
class CauseSearch {
 public:
  CauseSearch(const Attempt& failed, const Experiments& experiments) : failed_(failed), experiments_(experiments) {}

  Diagnosis conclude() {
    const Finding finding = find();
    d_.cause = finding.cause;
    d_.confidence = finding.confidence;
    d_.advice = advise(d_);
    name_caller(d_);
    return std::move(d_);
  }

 private:
  static constexpr int kMaxReplays = 12;
  static constexpr int kMaxPromotions = 2;

  /// True if all numbers of the attempt are finite. An absurd loss counts, unless the step failed because of it.
  bool is_finite(const Attempt& attempt) const {
    return attempt.commits() || (attempt.cause == AbortCause::kSpike && failed_.cause != AbortCause::kSpike);
  }

  Attempt run(const Variant& variant, TapeObserver* observer = nullptr) {
    ++d_.replays;
    return experiments_.run(variant, observer);
  }
  bool finite(const Variant& variant, TapeObserver* observer = nullptr) {
    if (d_.replays >= kMaxReplays) return false;
    return is_proof(variant, run(variant, observer));
  }
  bool is_proof(const Variant& variant, const Attempt& attempt) {
    d_.proof.push_back({variant.name, is_finite(attempt)});
    return d_.proof.back().finite;
  }

  Finding find() {
    if (failed_.cause == AbortCause::kBadData) return judge_refusal();
    if (failed_.cause == AbortCause::kCorruption) return judge_corruption(*failed_.mismatch);
    FirstBadSearch search(experiments_.batch, experiments_.stride);
    const Attempt again = run({}, &search);
    d_.first_bad = search.found();
    if (d_.first_bad && d_.first_bad->direction != "backward") call_ = search.call();
    d_.reproducible = same_outcome(failed_, again);
    if (!d_.reproducible && again.commits()) return {CauseClass::kNotReproducible, Confidence::kProven};
    if (failed_.cause == AbortCause::kSpike) return judge_spike();
    if (!d_.first_bad || failed_.cause == AbortCause::kUpdate) d_.first_bad = experiments_.damage();
    if (!d_.first_bad && failed_.cause == AbortCause::kUpdate) return judge_update();
    if (!d_.first_bad) return judge_without_op(search);
    const FirstBad bad = *d_.first_bad;
    if (bad.direction == "state") {
      const bool is_finite = !bad.operand_max.empty();  // only its 16-bit copy is not finite
      if (!earlier_weights_help() && is_finite) precision_helps(bad);
      return {CauseClass::kCorruptedState, Confidence::kProven};
    }
    if (bad.direction == "input") {
      if (std::optional<FirstBad> buffer = experiments_.bad_buffer(bad)) {
        d_.first_bad = std::move(buffer);
        --d_.first_bad->step;
        earlier_weights_help();
        return {CauseClass::kCorruptedState, Confidence::kProven};
      }
      const bool finite_value = !bad.operand_max.empty();  // finite in the batch, but not in a 16-bit dtype
      is_bad_at_any_scale_ = true;
      if (leaving_out_helps()) return {CauseClass::kBadInput, Confidence::kProven};
      if (stays_without_rows(bad)) return judge_constant(search);
      if (!finite_value) return {CauseClass::kBadInput, Confidence::kProven};
    }
    if (const std::optional<Finding> of_library = judge_library(bad)) return *of_library;
    return judge_op(bad);
  }

  /// Checks an op that a GPU library computed, with a second engine, Binade's own kernels, and a third, the CPU in f64.
  /// If both results are finite and in range, in whatever order sums are added, the library's result is wrong. Then
  /// finds out which of its plans is to blame (decision 0063).
  std::optional<Finding> judge_library(const FirstBad& bad) {
    const bool is_computed = bad.direction == "forward" || bad.direction == "backward";
    const bool is_candidate = experiments_.on_gpu && is_computed && is_product(bad.info->family) &&
                              !can_only_overflow(bad);
    if (!is_candidate || d_.replays + 2 > kMaxReplays) return {};
    EngineProbe second(bad, true);
    run({.name = "own-kernels"}, &second);
    const std::vector<std::string> keys = second.keys(bad.direction);
    if (keys.empty()) return {};  // no library computed the op
    d_.proof.push_back({"own-kernels", second.is_finite(bad.direction)});
    if (!second.is_finite(bad.direction)) return {};
    if (bad.direction == "backward") call_ = recorded(bad);
    const ResultInDouble third = result_in_double(call_);
    const bool is_known = third != ResultInDouble::kUnknown;
    if (is_known && (third != ResultInDouble::kInRange || !sums_are_in_range(call_))) return {};
    d_.library = library_fault(keys_to_blame(keys, bad));
    return Finding{CauseClass::kLibraryFault, is_known ? Confidence::kProven : Confidence::kLikely};
  }

  /// Returns the key whose plan alone makes the op's result wrong; all keys if there is no such key.
  std::vector<std::string> keys_to_blame(const std::vector<std::string>& keys, const FirstBad& bad) {
    for (const std::string& key : keys) {
      if (keys.size() == 1 || d_.replays >= kMaxReplays) break;
      const gpus::SuspendedPlans suspended({key});
      EngineProbe without(bad, false);
      run({.name = "without-plan"}, &without);
      if (without.is_finite(bad.direction)) return {key};
    }
    return keys;
  }

  /// Handles an op whose bits differed when its micro-batch was computed twice.
  Finding judge_corruption(const ChecksumMismatch& mismatch) {
    const bool is_forward = mismatch.direction == Direction::kForward;
    FirstBad& bad = d_.first_bad.emplace();
    bad.module = mismatch.module;
    bad.op = mismatch.op;
    bad.info = mismatch.info;
    bad.direction = is_forward ? "forward" : "backward";
    bad.tensor = is_forward ? "output" : "gradient";
    bad.value = mismatch.other_ops ? "of another op in the second computation" : "not the same twice";
    bad.step = failed_.step;
    bad.micro_batch = mismatch.micro_batch;
    bad.tape_index = mismatch.tape_index;
    d_.replays = 1;
    d_.reproducible = false;
    return {CauseClass::kNotReproducible, Confidence::kProven};
  }

  /// True if the tensor keeps its shape and its bad element in a replay without every second row: then it is no part of
  /// the batch.
  bool stays_without_rows(const FirstBad& bad) {
    if (experiments_.rows.size() < 2 || experiments_.stride < 2 || d_.replays >= kMaxReplays) return false;
    std::vector<std::int64_t> every_second;  // so that each micro-batch becomes smaller
    for (std::size_t i = 0; i < experiments_.rows.size(); i += 2) every_second.push_back(experiments_.rows[i]);
    FirstBadSearch search(0, experiments_.stride);
    run({.name = "half", .scale = 1.0, .without = std::move(every_second)}, &search);
    const std::optional<FirstBad> left = search.found();
    return left && left->direction == "input" && left->tape_index == bad.tape_index && left->shape == bad.shape &&
           left->index == bad.index;
  }

  /// Handles a bad tensor that no op computed, and that belongs neither to the batch nor to the model. If it is a mask,
  /// its infinities are intended, and the op that read the mask is to blame. Otherwise the tensor is state that the
  /// program keeps.
  Finding judge_constant(const FirstBadSearch& search) {
    if (const std::optional<FirstBad> reader = search.reader_of_mask()) {
      d_.first_bad = reader;
      return judge_op(*reader);
    }
    d_.first_bad->direction = "state";
    d_.first_bad->tensor = "an input that is neither of the batch nor of the model";
    --d_.first_bad->step;
    return {CauseClass::kCorruptedState, Confidence::kLikely};
  }

  /// Handles a DataError. If the step works without a sample, that sample is to blame. Otherwise, if the op read the
  /// batch, the batch is to blame; if it read computed operands only, these are at a singularity of the op.
  Finding judge_refusal() {
    RefusalSearch search;
    const Attempt again = run({}, &search);
    d_.reproducible = same_outcome(failed_, again);
    if (!d_.reproducible && again.commits()) return {CauseClass::kNotReproducible, Confidence::kProven};
    d_.first_bad = search.found(again.commits() ? failed_.refused : again.refused);
    if (search.reads_weights_only()) {
      earlier_weights_help();
      return {singularity_cause(*d_.first_bad), Confidence::kProven};
    }
    if (leaving_out_helps()) return {CauseClass::kBadInput, Confidence::kProven};
    if (d_.first_bad->direction == "input") return {CauseClass::kBadInput, Confidence::kLikely};
    return {singularity_cause(*d_.first_bad), Confidence::kLikely};
  }

  Finding judge_op(const FirstBad& bad) {
    const Evidence evidence = experiment_with(bad);
    const Conclusion conclusion = best_hypothesis(evidence);
    Finding finding = {cause_of(conclusion.hypothesis, bad),
                       conclusion.is_proven ? Confidence::kProven : Confidence::kLikely};
    if (finding.cause == CauseClass::kNotProven) finding = d_.op_is_wrong ? Finding() : likely_cause(bad);
    // An op that states no singularity, and is not finite for slightly different operands either, may simply be wrong.
    if (conclusion.hypothesis == Hypothesis::kSingularity && !is_confirmed_) finding.confidence = Confidence::kLikely;
    if (finding.cause == CauseClass::kLossScaleOverflow) return finding;
    narrow_promotion(bad);
    const bool is_weight = !bad.parameter.empty() && bad.direction == "forward";  // no sample can make it bad
    if (is_weight || !leaving_out_helps()) {
      earlier_weights_help();
      // No sample and no narrow dtype is to blame: the run had diverged.
      const bool exceeds_f32 = conclusion.hypothesis == Hypothesis::kOverflow && bad.dtype == name_of(DType::f32);
      if (exceeds_f32 && experiments_.has_diverged) finding = {CauseClass::kGradientExplosion, Confidence::kLikely};
    }
    // If the weights are to blame, f32 makes the loss finite, but it stays absurd: earlier weights are the remedy.
    if (is_absurd_when_promoted_ && d_.earlier_weights) d_.promote.clear();
    return finding;
  }

  /// Makes the experiments that distinguish the hypotheses, except those whose outcome is known in advance.
  Evidence experiment_with(const FirstBad& bad) {
    Evidence evidence;
    if (can_only_overflow(bad)) {
      evidence.singular = Outcome::kNo;
      evidence.beyond_range = Outcome::kYes;
    } else {
      if (bad.direction == "backward" && !call_.function) call_ = recorded(bad);
      const ResultInDouble result = result_in_double(call_);
      is_confirmed_ = result == ResultInDouble::kSingular || bad.info->singular() || takes_masks(bad) ||
                      is(bad, OpFamily::kNorm) || is_loss(bad);
      d_.op_is_wrong = result == ResultInDouble::kNeverFinite && !is_confirmed_;
      if (result != ResultInDouble::kUnknown && !d_.op_is_wrong) {
        // An operand may be so near a stated singularity that f64 has a finite value and f32 has none. Then the
        // singularity is to blame.
        const bool is_singular = result == ResultInDouble::kSingular || result == ResultInDouble::kNotFinite ||
                                 result == ResultInDouble::kNeverFinite || bad.at_singularity;
        evidence.singular = outcome_of(is_singular);
        evidence.beyond_range = outcome_of(!is_singular && result == ResultInDouble::kBeyondRange);
      }
    }
    evidence.lower_scale_helps = outcome_of(failed_.loss_scale != 1 && finite({.name = "scale-1", .scale = 1.0}));
    is_bad_at_any_scale_ = evidence.lower_scale_helps == Outcome::kNo;
    if (evidence.lower_scale_helps == Outcome::kYes && evidence.singular != Outcome::kYes) return evidence;
    evidence.f32_helps = outcome_of(experiments_.is_mixed && precision_helps(bad));
    evidence.operand_is_masked = outcome_of(bad.of_masked_row);
    if (!bad.of_masked_row || takes_masks(bad))  // SingularityGuard unmasks operands of such ops only
      evidence.unmasking_helps = outcome_of(bad.of_masked_row && raised_guards_help(bad));
    const bool is_open = evidence.f32_helps == Outcome::kNo && evidence.unmasking_helps == Outcome::kNo;
    if (evidence.singular == Outcome::kYes && is_open && is_guarded(bad)) raised_guards_help(bad);
    return evidence;
  }

  /// Returns the call of an op whose gradient is bad, by one more replay.
  RecordedCall recorded(const FirstBad& bad) {
    if (d_.replays >= kMaxReplays) return {};
    CallRecorder recorder(bad.micro_batch, bad.tape_index);
    run({.name = "recorded"}, &recorder);
    return recorder.recorded();
  }

  /// True if SingularityGuard can protect the op.
  static bool is_guarded(const FirstBad& bad) { return bad.at_singularity || is(bad, OpFamily::kNorm) || is_loss(bad); }

  /// True if raised guards of the bad op, or of all ops of the same type, make the step finite. All ops are tried
  /// because modules often share a mask or an eps.
  bool raised_guards_help(const FirstBad& bad) {
    SingularityGuard here(bad), everywhere(bad, true);
    return finite({.name = "guard-raised", .scale = 1.0}, &here) ||
           finite({.name = "guards-raised", .scale = 1.0}, &everywhere);
  }

  /// True if the step is finite with ops in f32. Replays at a loss scale of 1, so that gradients do not overflow once
  /// the forward pass is finite.
  bool precision_helps(const FirstBad& bad) {
    const bool is_half = bad.dtype == name_of(DType::f16) || bad.dtype == name_of(DType::bf16);
    return (is_half && promoting_helps("op-fp32", {target_of(bad)})) || promoting_helps("all-fp32", {"*"});
  }
  bool promoting_helps(const char* name, std::vector<std::string> targets) {
    if (d_.replays >= kMaxReplays) return false;
    const Variant variant{.name = name, .promote = in_f32(targets), .scale = 1.0};
    const Attempt attempt = run(variant);
    if (!is_proof(variant, attempt)) return false;
    d_.promote = std::move(targets);
    is_absurd_when_promoted_ = attempt.cause == AbortCause::kSpike;
    return true;
  }

  /// If the step is finite with all ops in f32, looks for fewer ops that suffice: the bad op, and the op that is bad
  /// once the others are in f32.
  void narrow_promotion(const FirstBad& bad) {
    if (d_.promote != std::vector<std::string>{"*"}) return;
    std::vector<std::string> targets{target_of(bad)};
    for (int tried = 0; tried < kMaxPromotions && d_.replays < kMaxReplays; ++tried) {
      FirstBadSearch next(experiments_.batch, experiments_.stride);
      const Variant variant{
          .name = fmt::format("{}-ops-fp32", targets.size()), .promote = in_f32(targets), .scale = 1.0};
      if (is_finite(run(variant, &next))) {
        d_.proof.push_back({variant.name, true});
        d_.promote = targets;
        return;
      }
      const std::optional<FirstBad> further = next.found();
      if (!further || std::ranges::count(targets, target_of(*further)) > 0) return;
      targets.push_back(target_of(*further));
    }
  }

  Finding judge_update() {
    FirstBad bad;
    const std::string& parameter = failed_.proof.parameter;
    bad.module = module_of(parameter);
    bad.op = "update";
    bad.direction = "optimizer";
    bad.tensor = bad.parameter = parameter;
    bad.dtype = "f32";
    bad.value = std::isnan(failed_.proof.largest) ? "nan" : "inf";
    bad.step = failed_.step;
    d_.first_bad = bad;
    if (!leaving_out_helps()) earlier_weights_help();
    // The gradients are finite, so a NaN in the updated values comes from 0 / 0, unless the learning rate is infinite
    // in f32.
    const bool finite_rate = std::isfinite(static_cast<float>(failed_.lr));
    if (std::isnan(failed_.proof.largest) && finite_rate) return {CauseClass::kOptimizerUnderflow, Confidence::kLikely};
    return {CauseClass::kGradientExplosion, Confidence::kLikely};
  }

  Finding judge_spike() {
    if (earlier_weights_help()) return {CauseClass::kGradientExplosion, Confidence::kLikely};
    leaving_out_helps();
    return {};
  }

  /// Handles the case that every op had finite results. Only the accumulation of a parameter's gradients can have
  /// failed.
  Finding judge_without_op(const FirstBadSearch& search) {
    d_.first_bad = experiments_.bad_gradient();
    if (d_.first_bad) std::tie(d_.first_bad->module, d_.first_bad->op) = search.reader_of(d_.first_bad->parameter);
    if (leaving_out_helps() || earlier_weights_help()) return {CauseClass::kNotProven, Confidence::kLikely};
    return {};
  }

  bool earlier_weights_help() {
    if (experiments_.earlier_weights) d_.earlier_weights = finite({.name = "earlier-weights", .earlier_weights = true});
    return d_.earlier_weights;
  }

  /// True if most rows of the bad tensor are bad, whatever its layout: then no particular samples are to blame.
  bool concerns_most_rows() const {
    if (!d_.first_bad || d_.first_bad->possible_samples.empty()) return false;
    const std::int64_t of_micro_batch = experiments_.batch > 0 ? experiments_.batch : std::ssize(experiments_.rows);
    return std::ranges::all_of(d_.first_bad->possible_samples, [&](const SampleSearch::Rows& rows) {
      return std::ssize(rows) > (of_micro_batch + 1) / 2;
    });
  }

  /// Searches for samples without which the step is finite. Returns true if there are any.
  bool leaving_out_helps() {
    if (concerns_most_rows()) return false;
    SampleSearch search(experiments_.rows, [&](const SampleSearch::Rows& rows) -> std::optional<bool> {
      if (d_.replays >= kMaxReplays - 1) return {};  // keeps one replay for earlier weights
      // Uses a loss scale of 1, so that no other gradient overflows, unless that scale alone makes the step finite.
      return finite({.name = rows.size() == 1 ? "sample-removed" : "samples-removed",
                     .scale = is_bad_at_any_scale_ ? std::optional(1.0) : std::nullopt,
                     .without = rows});
    });
    d_.samples = search.find(d_.first_bad ? d_.first_bad->possible_samples : std::vector<SampleSearch::Rows>{});
    if (!d_.first_bad) return !d_.samples.empty();
    FirstBad& bad = *d_.first_bad;
    if (experiments_.rows.size() > 1) bad.samples = d_.samples;  // with one row, keeps those that the tensor shows
    bad.sample.reset();
    if (bad.samples.size() == 1) bad.sample = bad.samples.front();
    return !d_.samples.empty();
  }

  const Attempt& failed_;
  const Experiments& experiments_;
  RecordedCall call_;                     // the call of the first bad op
  bool is_absurd_when_promoted_ = false;  // true if the loss with d_.promote was finite, but absurdly high
  bool is_bad_at_any_scale_ = false;      // true if a loss scale of 1 does not make the step finite
  bool is_confirmed_ = false;             // true if f64 shows a singularity, or the kind of op has one
  Diagnosis d_;
};

}  // namespace

std::string_view name_of(CauseClass cause) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "loss-scale-overflow", "gradient-explosion", "activation-overflow", "attention-logit-overflow",
      "fully-masked-row",    "normalisation-pole", "arithmetic-pole",     "loss-function-pole",
      "optimizer-underflow", "bad-input",          "corrupted-state",     "reduction-overflow",
      "silent-underflow",    "not-reproducible",   "not-proven",          "rounded-constant",
      "library-fault"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view name_of(Confidence confidence) {
  static constexpr std::array<std::string_view, 3> kNames = {"proven", "likely", "not-proven"};
  return kNames[static_cast<std::size_t>(confidence)];
}

Diagnosis diagnose(const Attempt& failed, const Experiments& experiments) {
  return CauseSearch(failed, experiments).conclude();
}

Incident diagnose_evaluation(std::int64_t step, const std::string& what, const FirstBadSearch& search,
                             nn::Module& model, bool averaged) {
  Incident incident{.step = step, .what = what, .warning = true};
  Diagnosis& d = incident.diagnosis;
  d.replays = 1;
  d.first_bad = search.found();
  if (d.first_bad) {
    FirstBad& bad = *d.first_bad;
    bad.sample.reset();  // rows of an evaluation batch are no training samples
    bad.samples.clear();
    bad.possible_samples.clear();
    if (bad.direction == "state" && averaged) bad.tensor = "average of " + bad.parameter;
    if (bad.direction == "input")
      if (std::optional<FirstBad> buffer = find_bad_buffer(model, bad)) bad = *std::move(buffer);
    const bool stored = bad.direction == "state", given = bad.direction == "input";
    const bool half = bad.dtype == name_of(DType::f16) || bad.dtype == name_of(DType::bf16);
    d.cause = stored  ? CauseClass::kCorruptedState
              : given ? CauseClass::kBadInput
              : half  ? CauseClass::kActivationOverflow
                      : CauseClass::kNotProven;
    d.confidence = stored || given ? Confidence::kProven : half ? Confidence::kLikely : Confidence::kNotProven;
  }
  d.advice = advise(d);
  name_caller(d);
  incident.remedy = {.action = RemedyAction::kNone,
                     .what = "training is not affected; this evaluation is never the best"};
  return incident;
}

}  // namespace binade::amp
