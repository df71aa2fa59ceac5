#include "binade/amp/warnings/stagnation.h"

#include <cmath>

#include "binade/amp/suggestions.h"
#include "binade/amp/warnings/trend.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kSamplesPerParameter = 256;
constexpr std::size_t kMinSamples = 64;  // minimum number of sampled weights per dtype, for a check
constexpr double kMinUnchanged = 0.99;   // minimum share of unchanged weights, for a warning
constexpr double kEndOfSchedule = 0.01;  // minimum learning rate for a check, as a share of the largest so far

/// Returns half the distance from a value to its neighbor in `dtype`. A smaller update does not change the value.
double half_step(double value, DType dtype) {
  const int digits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24;
  const int smallest = dtype == DType::f16 ? -24 : dtype == DType::bf16 ? -133 : -149;
  int exponent = 0;
  std::frexp(value, &exponent);  // value in [2^(exponent - 1), 2^exponent)
  return std::ldexp(0.5, std::max(exponent - digits, smallest));
}

}  // namespace

void Stagnation::before_update(optim::Optimizer& optimizer, const optim::StepInput& input) {
  optim::FlatParameters& parameters = optimizer.parameters();
  parameters.gradients();
  for (std::size_t s = 0; s < parameters.size(); ++s) {
    if (!parameters.has_gradient(s)) continue;
    const optim::FlatParameters::Slice& parameter = parameters.slices()[s];
    const Tensor value = parameter.variable.value().on_host();
    const Tensor gradient = parameter.variable.state()->grad.on_host();
    const double rate = optimizer.lr_of(s, input);
    const optim::UpdateFacts facts = optimizer.facts_of(optimizer.groups().class_of(s));
    const std::int64_t stride = std::max<std::int64_t>(1, value.numel() / kSamplesPerParameter);
    for (std::int64_t i = 0; i < value.numel(); i += stride) {
      const double g = gradient.data<float>()[i];
      if (g == 0 || !std::isfinite(g)) continue;
      // The update is the rate times the gradient for SGD, and about the rate for Adam and Lion.
      const double factor = facts.unit_steps ? 1 : std::abs(g) * input.inverse_scale * input.clip_factor;
      sample_.push_back({&parameter, i, value.at(i), rate, facts.stated ? rate * factor : 0});
    }
  }
}

std::optional<Warning> Stagnation::after_update(std::int64_t step, double lr, bool stochastic) {
  struct Count {
    std::size_t sampled = 0, unchanged = 0;
    std::vector<double> sufficient_lrs;                       // for each weight, the learning rate that would change it
    const optim::FlatParameters::Slice* parameter = nullptr;  // of the first sampled weight
  };
  std::array<Count, 3> counts;
  double squares = 0;
  Tensor value;
  const optim::FlatParameters::Slice* parameter = nullptr;
  for (const Weight& w : sample_) {
    if (w.parameter != parameter) value = (parameter = w.parameter)->variable.value().on_host();
    const double now = value.at(w.index);
    squares += (now - w.value) * (now - w.value);
    if (value.rank() < 2 || w.rate == 0)
      continue;  // biases are not judged: they begin at 0, where any update changes them
    Count& count = counts[static_cast<std::size_t>(value.dtype())];
    if (count.sampled++ == 0) count.parameter = w.parameter;
    count.unchanged += now == w.value;
    if (w.update > 0) count.sufficient_lrs.push_back(lr * half_step(w.value, value.dtype()) / w.update);
  }
  update_rms_ = sample_.empty() ? 0 : std::sqrt(squares / static_cast<double>(sample_.size()));
  sample_.clear();
  largest_lr_ = std::max(largest_lr_, lr);

  std::optional<Warning> warning;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Count& count = counts[static_cast<std::size_t>(dtype)];
    Group& group = group_of(dtype);
    const bool judged = count.sampled >= kMinSamples && lr > 0 && lr >= kEndOfSchedule * largest_lr_ &&
                        !(stochastic && dtype != DType::f32);
    const bool unchanged = judged &&
                           static_cast<double>(count.unchanged) > kMinUnchanged * static_cast<double>(count.sampled);
    group.checks = unchanged ? std::min<std::int64_t>(group.checks + 1, kChecksInARow) : 0;
    if (group.checks < kChecksInARow || group.reported != 0 || warning) continue;
    group.reported = 1;
    warning = Warning{.kind = WarningKind::kStagnation, .step = step, .module = count.parameter->name};
    warning->direction = "optimizer";
    warning->dtype = name_of(dtype);
    warning->what = fmt::format(
        "updates vanish: {:.1f} % of the {} weights that have a gradient kept their bits for {} steps at learning rate "
        "{:.3g}",
        100.0 * static_cast<double>(count.unchanged) / static_cast<double>(count.sampled), name_of(dtype),
        kStepsBetweenChecks * (kChecksInARow - 1), lr);
    warning->advice = fmt::format("a learning rate of about {:.1g} would change half of them{}",
                                  count.sufficient_lrs.empty() ? 0.0 : median(count.sufficient_lrs),
                                  dtype == DType::f32
                                      ? ""
                                      : fmt::format("; f32 masters ({}) or stochastic rounding keep smaller updates",
                                                    suggest_masters()));
  }
  return warning;
}

void Stagnation::find_zero_rate(const CommittedStep& step, std::vector<Warning>& found) {
  steps_at_zero_lr_ = step.lr == 0 ? std::min(steps_at_zero_lr_ + 1, kStepsAtZeroLr + 1) : 0;
  if (steps_at_zero_lr_ != kStepsAtZeroLr) return;
  Warning warning{.kind = WarningKind::kStagnation, .step = step.step, .direction = "optimizer", .dtype = "f32"};
  warning.what = fmt::format("has had a learning rate of 0 for {} steps: no weight changes", kStepsAtZeroLr);
  warning.advice = "set a learning rate; if a schedule is to blame, let it begin above 0 and end with the run";
  found.push_back(std::move(warning));
}

StateDict Stagnation::state() const {
  StateDict state;
  StateDict::Integers checks, reported;
  for (const Group& group : groups_) {
    checks.push_back(group.checks);
    reported.push_back(group.reported);
  }
  state.put("looks", checks);
  state.put("told", reported);
  state.put("largest_lr", largest_lr_);
  state.put("steps_at_zero_lr", steps_at_zero_lr_);
  return state;
}

void Stagnation::load_state(const StateDict& state) {
  Stagnation loaded;
  if (!state.empty()) {
    const StateDict::Integers &checks = read_counts(state, "looks"), &reported = read_counts(state, "told");
    check<CheckpointError>(checks.size() == groups_.size() && reported.size() == groups_.size(),
                           "stagnation: wanted {} groups, the checkpoint holds {}", groups_.size(), checks.size());
    for (std::size_t i = 0; i < groups_.size(); ++i) loaded.groups_[i] = {checks[i], reported[i]};
    loaded.largest_lr_ = state.number("largest_lr");
    if (state.contains("steps_at_zero_lr")) loaded.steps_at_zero_lr_ = read_count(state, "steps_at_zero_lr");
  }
  *this = loaded;
}

}  // namespace binade::amp
