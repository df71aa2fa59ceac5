#include "binade/amp/warnings/evaluation_mismatch.h"

#include <cmath>

#include "binade/amp/state_rows.h"
#include "binade/amp/warnings/trend.h"
#include "binade/nn/batch_norm.h"

namespace binade::amp {
namespace {

/// Returns the distance of the batch's means from the running means, in running standard deviations, as the median over
/// the channels. Returns 0 if the step did not update the statistics.
double deviations_of(const nn::BatchNorm& norm) {
  if (!norm.running_mean.pending()) return 0;
  const Tensor before = norm.running_mean.committed().on_host(), after = norm.running_mean.value().on_host();
  const Tensor variance = norm.running_var.committed().on_host();
  const std::int64_t updates = norm.num_batches_tracked.value().on_host().data<std::int64_t>()[0] -
                               norm.num_batches_tracked.committed().on_host().data<std::int64_t>()[0];
  // If a step has several micro-batches, their updates move the running mean towards the mean of their means.
  const double share = 1 - std::pow(1 - norm.momentum(), static_cast<double>(updates));
  std::vector<double> deviations;
  for (std::int64_t c = 0; c < before.numel(); ++c) {
    const double shift = (after.at(c) - before.at(c)) / share;
    const double x = std::abs(shift) / std::sqrt(variance.at(c) + norm.eps());
    if (std::isfinite(x)) deviations.push_back(x);
  }
  return deviations.empty() ? 0 : median(deviations);
}

}  // namespace

void EvaluationMismatch::before_commit(nn::Module& model) {
  for (const auto& [path, module] : nn::named_modules(model)) {
    const auto* norm = dynamic_cast<const nn::BatchNorm*>(module);
    if (norm == nullptr) continue;
    auto known = std::ranges::find(norms_, path, &Norm::path);
    if (known == norms_.end()) known = norms_.insert(known, {.path = path});
    known->deviations = deviations_of(*norm);
    known->checks = known->deviations > kMostDeviations ? std::min(known->checks + 1, kChecksInARow) : 0;
  }
}

void EvaluationMismatch::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  for (Norm& norm : norms_) {
    if (norm.checks < kChecksInARow || norm.reported != 0) continue;
    norm.reported = 1;
    Warning warning{.kind = WarningKind::kEvaluationMismatch,
                    .step = step.step,
                    .module = norm.path,
                    .op = "batch_norm",
                    .direction = "forward",
                    .dtype = "f32"};
    warning.what = fmt::format(
        "will differ in evaluation: its running means are {:.2g} standard deviations from the means of its batches, so "
        "that evaluation shifts its values by as much",
        norm.deviations);
    warning.advice = "use larger batches, or a norm that does not depend on the batch (group norm, layer norm)";
    found.push_back(std::move(warning));
  }
}

StateDict EvaluationMismatch::state() const {
  StateDict state;
  put_rows<Norm>(state, norms_, {"paths", &Norm::path}, {{"checks", &Norm::checks}, {"reported", &Norm::reported}});
  return state;
}

void EvaluationMismatch::load_state(const StateDict& state) {
  norms_ = read_rows<Norm>(state, "evaluation mismatch", {"paths", &Norm::path},
                           {{"checks", &Norm::checks}, {"reported", &Norm::reported}});
}

}  // namespace binade::amp
