#include "tests/truth/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace binade::truth {

namespace {

constexpr double kHalfLimit = 65504, kFloatLimit = 3.4e38;

bool contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

std::string text_of(const std::optional<CallKey>& key) {
  return key ? fmt::format("'{}' in {} ({})", key->op, key->module.empty() ? "the root" : key->module, key->direction)
             : std::string("no op");
}

/// Verifies that the step is finite without the rows of the truth, and not finite without another row (three are
/// tried).
std::string verify_rows(Session& session, const Batch& batch, const Truth& truth) {
  const auto finite_without = [&](std::span<const std::int64_t> rows) {
    return examine(session.task(), batch.without(rows), session.policy(), 1).finite;
  };
  if (!truth.rows.empty() && !finite_without(truth.rows)) return "not finite without the samples that should cause it";
  int tried = 0;
  for (std::int64_t row = 0; row < batch.samples() && tried < 3; ++row) {
    if (std::find(truth.rows.begin(), truth.rows.end(), row) != truth.rows.end()) continue;
    ++tried;
    const std::int64_t alone[] = {row};
    if (finite_without(alone)) return fmt::format("finite without sample {}, which should not matter", row);
  }
  return {};
}

std::string verify_op(Session& session, const Batch& batch, const Truth& truth, const Findings& f) {
  const std::optional<CallKey>& first = f.first();
  if (!first) return "no op turned finite operands into something else";
  if (!truth.ops.empty() && !contains(truth.ops, first->op)) return "the first bad op is " + text_of(first);
  if (!truth.modules.empty() && !contains(truth.modules, first->module)) return "the first bad op is " + text_of(first);
  const auto& exact = f.in_double;
  const bool half = session.options().precision == "fp16";
  switch (truth.proof) {
    case Proof::kSingular:
    case Proof::kMask:
      if (!exact.first || exact.first->op != first->op) return "in f64 the first bad op is " + text_of(exact.first);
      return {};
    case Proof::kRounded:
      if (!exact.finite || exact.first) return "not finite in f64: " + text_of(exact.first);
      return {};
    case Proof::kOverflow: {
      const auto at = exact.largest.find(*first);
      if (at != exact.largest.end())
        return at->second > (half ? kHalfLimit : kFloatLimit) ? "" : fmt::format("in f64 its result is {}", at->second);
      return examine(session.task(), batch, amp::Policy::fp32(), 1).finite ? "" : "a cast that fails in f32 too";
    }
    default: return {};
  }
}

std::vector<std::int64_t> named_samples(const amp::Diagnosis& d) {
  std::vector<std::int64_t> rows;
  if (d.first_bad && d.first_bad->sample)
    rows = {*d.first_bad->sample};
  else if (!d.samples.empty())
    rows = d.samples;
  else if (d.first_bad)
    rows = d.first_bad->samples;
  std::sort(rows.begin(), rows.end());
  return rows;
}

bool same_module(const amp::FirstBad& bad, const std::string& module) {
  const auto root = [](const std::string& m) { return m.empty() || m == "loss"; };
  return bad.module == module || bad.op_path() == module || (root(module) && root(bad.module));
}

/// If a later op makes the forward result finite again (exp of -inf), the op's backward is also a right place.
bool same_call(const amp::FirstBad& bad, const Evidence& evidence) {
  const std::optional<CallKey>& call = evidence.first;
  return call && bad.op == call->op && same_module(bad, call->module) &&
         (bad.direction == call->direction || (evidence.loss_finite && bad.direction == "backward"));
}

bool names_state(const amp::FirstBad& bad, const std::string& path) {
  const auto ends = [&](const std::string& text) {
    return text == path || text.ends_with("." + path) || text.ends_with("/" + path);
  };
  return bad.direction == "state" && (ends(bad.parameter) || ends(bad.tensor));
}

/// Whether one of the truth's samples has a number beyond the range of the dtype in which products compute.
bool input_too_large(const Batch& batch, const Truth& truth) {
  for (const std::int64_t row : truth.rows)
    if (batch.has("x"))
      for (const std::int64_t at : elements_of(batch.fields.at("x"), batch.samples(), row))
        if (std::abs(batch["x"].at(at)) > kHalfLimit) return true;
  return false;
}

bool place_right(const amp::FirstBad& bad, const Batch& batch, const Truth& truth, const Findings& f) {
  switch (truth.proof) {
    case Proof::kInput:
    case Proof::kRefused: return bad.direction == "input";
    case Proof::kState:
      return names_state(bad, truth.state_path) ||
             (truth.classes.size() > 1 && (same_call(bad, f.at_one) || same_call(bad, f.at_scale)));
    case Proof::kScale: return bad.direction == "backward";
    case Proof::kMask: {
      const auto in = [&](const std::string& module) { return same_module(bad, module); };
      return bad.direction == "forward" && contains(truth.ops, bad.op) &&
             (truth.modules.empty() ? in(f.first()->module)
                                    : std::any_of(truth.modules.begin(), truth.modules.end(), in));
    }
    case Proof::kOverflow:
      if (bad.direction == "input" && input_too_large(batch, truth)) return true;
      [[fallthrough]];
    default: return same_call(bad, f.at_one) || same_call(bad, f.at_scale);
  }
}

bool sample_right(const amp::Diagnosis& d, const Batch& batch, const Truth& truth) {
  const std::vector<std::int64_t> named = named_samples(d);
  if (truth.rows.empty()) return !(d.first_bad && d.first_bad->sample) && d.samples.empty();
  if (named != truth.rows) return false;
  return !(d.first_bad && d.first_bad->sample_id) ||
         *d.first_bad->sample_id == batch.origin.samples[static_cast<std::size_t>(named.front())];
}

}  // namespace

std::string verify(Session& session, const Batch& batch, const Truth& truth, Findings& findings) {
  findings.at_scale = examine(session.task(), batch, session.policy(), session.scale());
  findings.at_one = examine(session.task(), batch, session.policy(), 1);
  if (truth.proof == Proof::kRefused)
    return findings.at_one.error.empty() ? "the closure did not refuse the index" : "";
  if (truth.proof == Proof::kScale)
    return findings.at_scale.finite ? "finite at the scale" : findings.at_one.finite ? "" : "not finite at 1";
  if (truth.proof == Proof::kState) return truth.must_fail && findings.at_one.finite ? "no number went bad" : "";
  if (findings.at_one.finite) return "the step is finite";
  if (truth.proof != Proof::kInput) {
    findings.in_double = examine_in_double(session.task(), batch);
    if (!findings.in_double.error.empty()) return "in f64: " + findings.in_double.error;
    if (std::string why = verify_op(session, batch, truth, findings); !why.empty()) return why;
  }
  return verify_rows(session, batch, truth);
}

void judge(const Outcome& outcome, const Batch& batch, const Truth& truth, const Findings& findings, Record& record) {
  record.truth = describe(truth, findings);
  record.said = describe(outcome);
  record.single_cause = !truth.rows.empty();
  record.detected = outcome.alarmed();
  record.aborted = record.detected && !outcome.committed();
  const amp::Incident* incident = outcome.incident();
  if (incident == nullptr) return;
  const amp::Diagnosis& d = incident->diagnosis;
  record.place_right = d.first_bad && place_right(*d.first_bad, batch, truth, findings);
  record.sample_right = sample_right(d, batch, truth);
  const std::string cause(amp::name_of(d.cause));
  record.class_right = std::any_of(truth.classes.begin(), truth.classes.end(),
                                   [&](const std::string& one) { return cause.find(one) != std::string::npos; });
  record.not_proven = d.confidence == amp::Confidence::kNotProven || d.cause == amp::CauseClass::kNotProven;
  record.proven = d.confidence == amp::Confidence::kProven;
  record.replays = d.replays;
}

std::string describe(const Truth& truth, const Findings& findings) {
  std::string place = text_of(findings.first());
  if (truth.proof == Proof::kInput || truth.proof == Proof::kRefused) place = "the input";
  if (truth.proof == Proof::kState) place = "state " + truth.state_path;
  if (truth.proof == Proof::kScale) place = "backward";
  return fmt::format("{}; samples {}; {}", place, truth.rows, fmt::join(truth.classes, " or "));
}

std::string describe(const Outcome& outcome) {
  const amp::Incident* incident = outcome.incident();
  if (incident == nullptr) {
    if (!outcome.thrown.empty()) return outcome.thrown + ": " + outcome.error.substr(0, 160);
    return outcome.committed() ? "nothing, and committed" : "nothing, and not committed";
  }
  const amp::Diagnosis& d = incident->diagnosis;
  std::string place = "no place";
  if (d.first_bad)
    place = fmt::format("'{}' in {} ({}), {} is {}", d.first_bad->op,
                        d.first_bad->module.empty() ? "the root" : d.first_bad->module, d.first_bad->direction,
                        d.first_bad->tensor, d.first_bad->value);
  return fmt::format("{}; samples {}; {} ({}) after {} replays", place, named_samples(d), amp::name_of(d.cause),
                     amp::name_of(d.confidence), d.replays);
}

}  // namespace binade::truth
