#include "binade/amp/step/metrics.h"

#include <algorithm>
#include <cmath>
#include <optional>

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

std::vector<StepMetric> learning_rates(const Transaction& transaction, std::span<const PhaseAttempt> phases) {
  const auto& optimizers = transaction.optimizers();
  if (optimizers.size() == 1 && optimizers.front()->groups().classes() == 1) return {};
  std::vector<StepMetric> rates;
  for (const PhaseAttempt& phase : phases)
    for (const OptimizerUpdate& update : phase.updates) {
      const optim::ParameterGroups& groups = optimizers[update.optimizer]->groups();
      const std::string optimizer = transaction.names_of(std::span(&update.optimizer, 1));
      for (std::size_t i = 0; i < groups.classes(); ++i) {
        if (groups.parameters_of(i) == 0) continue;
        std::string name = "lr";
        if (!optimizer.empty()) name += "/" + optimizer;
        if (groups.classes() > 1) name += "/" + groups.label_of(i);
        const double rate = groups.lr(i, update.input);
        const auto known = std::ranges::find(rates, name, &StepMetric::tag);  // of an earlier phase
        if (known != rates.end())
          known->value = rate;
        else
          rates.push_back({name, name, rate});
      }
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
