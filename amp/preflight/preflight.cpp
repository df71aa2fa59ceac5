#include "binade/amp/preflight/preflight.h"

#include <chrono>
#include <cmath>

#include "binade/amp/preflight/rules.h"

namespace binade::amp {
namespace {

/// The rules, in the order of the report. The last rule reports failures that no other rule explains.
constexpr Rule kRules[] = {find_bad_data,     find_singularities, find_vanished_eps,    find_mask_constants,
                           find_masked_rows,  find_long_sums,     find_little_headroom, find_unfit_scale,
                           find_idle_updates, find_non_finite};

/// Sets the step context. The destructor undoes all effects of a run of the step.
class RunScope {
 public:
  explicit RunScope(const PreflightStep& step) : step_(step), context_(std::exchange(step_context(), step.at)) {
    step.optimizer.zero_grad();
  }
  ~RunScope() {
    for (const auto& [name, buffer] : nn::named_buffers(step_.model)) buffer->rollback();
    step_.optimizer.zero_grad();
    step_context() = std::move(context_);
  }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  const PreflightStep& step_;
  StepContext context_;
};

/// The results of one run of the step.
struct Outcome {
  Survey survey;
  double loss = std::nan("");
  bool backward = false;  ///< true if backward ran
  optim::GradientScan scan;
  std::string error;  ///< message of the exception that the closure threw
};

Outcome run(const PreflightStep& step, const std::function<Variable()>& closure, double scale) {
  Outcome outcome;
  const RunScope scope(step);
  const ObserverScope watching(outcome.survey);
  const PolicyScope policy(step.policy);
  const nn::Shadows shadows;
  const nn::TransactionScope transaction(shadows);
  const GradGuard recording;
  try {
    const Variable loss = closure();
    outcome.loss = loss.item();
    if (std::isfinite(outcome.loss) && loss.requires_grad()) {
      const ExcludedLeaves scope(step.excluded);
      binade::backward(loss, scale);
      outcome.scan = optim::scan_gradients(step.optimizer.parameters());
      outcome.backward = true;
    }
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

bool gradients_fit(const Outcome& outcome) {
  return !outcome.backward ||
         (outcome.scan.finite() && std::ranges::none_of(outcome.survey.ops(), &SurveyedOp::backward_breaks));
}

/// Returns "blocks.#.mlp" for "blocks.2.mlp". Findings whose modules differ only by numbers are merged.
std::string without_numbers(const std::string& path) {
  std::string text;
  for (const char c : path) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || text.empty() || text.back() != '#') text += digit ? '#' : c;
  }
  return text;
}

Findings merged(Findings findings) {
  Findings kept;
  for (PreflightFinding& f : findings) {
    const auto same = std::ranges::find_if(kept, [&](const PreflightFinding& k) {
      return k.rule == f.rule && k.op == f.op && without_numbers(k.module) == without_numbers(f.module);
    });
    if (same == kept.end())
      kept.push_back(std::move(f));
    else if (same->module != f.module)
      same->also.push_back(f.module);
  }
  return kept;
}

}  // namespace

PreflightReport preflight(const PreflightStep& step, const std::function<Variable()>& closure) {
  const auto start = std::chrono::steady_clock::now();
  const double scale = LossScaler(step.loss_scale).scale();
  double measured_at = scale;
  Outcome outcome = run(step, closure, scale);
  for (const double lower : {65536.0, 256.0, 1.0, 0x1p-10})
    if (lower < measured_at && !gradients_fit(outcome)) outcome = run(step, closure, measured_at = lower);

  Findings findings;
  if (!outcome.error.empty())
    findings.push_back({.rule = "refused",
                        .severity = Severity::kMeasured,
                        .op = "step",
                        .what = outcome.error,
                        .advice = "the first step will end with this error"});
  const Inspection inspection{.survey = outcome.survey,
                              .policy = step.policy,
                              .optimizer = step.optimizer,
                              .loss_scale = step.loss_scale,
                              .scale = scale,
                              .lr = step.lr,
                              .ema_decay = step.ema_decay,
                              .backward = outcome.backward,
                              .measured_at = measured_at,
                              .scan = outcome.scan};
  for (const Rule rule : kRules) rule(inspection, findings);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {merged(std::move(findings)), outcome.loss, took.count()};
}

}  // namespace binade::amp
