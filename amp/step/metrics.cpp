#include "binade/amp/step/metrics.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "binade/amp/step/transaction.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {
namespace {

/// Returns the largest product of query and key, if attention computes this product as a separate op.
std::optional<double> attention_logits(const MetricSource& m) {
  if (!m.warnings.probes(m.step.step).limits) return std::nullopt;
  std::uint32_t largest = 0;
  for (const Telemetry::OpRecord& record : m.step.telemetry.records(Direction::kForward))
    if (record.is_attention_scores) largest = std::max({largest, record.amax.low, record.amax.wide});
  const double value = optim::magnitude_of(largest);
  return largest > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Returns the smallest relative_entropy() of all attentions.
std::optional<double> attention_entropy(const MetricSource& m) {
  if (!m.warnings.probes(m.step.step).limits) return std::nullopt;
  std::optional<double> least;
  for (const Telemetry::OpRecord& record : m.step.telemetry.records(Direction::kForward))
    if (record.entropy) least = std::min(*record.entropy, least.value_or(1));
  return least;
}

std::optional<double> if_finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

struct Metric {
  const char* tag;     ///< name in TensorBoard
  const char* member;  ///< name in metrics.jsonl and on the terminal; empty: in neither
  /// Computes the value; std::nullopt if the step did not measure it.
  std::optional<double> (*value)(const MetricSource& m);
};

constexpr Metric kMetrics[] = {
    {"train/loss", "", [](const MetricSource& m) { return std::optional(m.result.loss); }},
    {"train/grad_norm", "", [](const MetricSource& m) { return std::optional(m.result.grad_norm); }},
    {"train/loss_scale", "", [](const MetricSource& m) { return std::optional(m.result.loss_scale); }},
    {"train/lr", "", [](const MetricSource& m) { return std::optional(m.result.lr); }},
    {"signs/attention_logits", "", attention_logits},
    {"signs/attention_entropy", "", attention_entropy},
    {"signs/update_rms", "", [](const MetricSource& m) { return m.warnings.update_rms(m.step.step); }},
    {"headroom/forward", "", [](const MetricSource& m) { return if_finite(m.result.forward_headroom.binades); }},
    {"headroom/backward", "", [](const MetricSource& m) { return if_finite(m.result.backward_headroom.binades); }},
};

}  // namespace

LearningRates::LearningRates(const Transaction& transaction) : transaction_(transaction) {
  const auto& optimizers = transaction.optimizers();
  if (optimizers.size() == 1 && optimizers.front()->groups().classes() == 1) return;
  std::set<std::string> all;
  for (std::size_t o = 0; o < optimizers.size(); ++o) {
    const optim::ParameterGroups& groups = optimizers[o]->groups();
    const std::string optimizer = transaction.names_of(std::span(&o, 1));
    std::vector<std::string>& names = names_.emplace_back();
    for (std::size_t i = 0; i < groups.classes(); ++i) {
      std::string name = "lr";
      if (!optimizer.empty()) name += "/" + optimizer;
      if (groups.classes() > 1) name += "/" + groups.label_of(i);
      const std::string plain = name;  // a slash in a name may make two of them equal
      for (int copy = 2; !all.insert(name).second; ++copy) name = fmt::format("{} #{}", plain, copy);
      names.push_back(std::move(name));
    }
  }
}

std::vector<StepMetric> LearningRates::of(std::span<const PhaseAttempt> phases) const {
  if (names_.empty()) return {};
  std::vector<const OptimizerUpdate*> last(names_.size(), nullptr);  // last update of each optimizer
  std::vector<std::size_t> order;
  for (const PhaseAttempt& phase : phases)
    for (const OptimizerUpdate& update : phase.updates)
      if (std::exchange(last[update.optimizer], &update) == nullptr) order.push_back(update.optimizer);
  std::vector<StepMetric> rates;
  for (const std::size_t o : order) {
    const optim::ParameterGroups& groups = transaction_.optimizers()[o]->groups();
    for (std::size_t i = 0; i < groups.classes(); ++i)
      if (groups.parameters_of(i) > 0) rates.push_back({names_[o][i], names_[o][i], groups.lr(i, last[o]->input)});
  }
  return rates;
}

std::vector<StepMetric> metrics_of(const MetricSource& source) {
  std::vector<StepMetric> metrics = source.rates;
  for (const Metric& metric : kMetrics)
    if (const std::optional<double> value = metric.value(source))
      metrics.push_back({metric.tag, metric.member, *value});
  return metrics;
}

}  // namespace binade::amp
