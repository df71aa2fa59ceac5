#include "binade/amp/warnings/stagnation.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/warnings/trend.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kPerParameter = 256;
constexpr std::size_t kLeast = 64;    // weights with a gradient that a judgement wants
constexpr double kStill = 0.99;       // share of them
constexpr double kPlannedEnd = 0.01;  // of the largest learning rate: the end of a schedule

/// Half the distance from a value to its neighbor: what an update must exceed to change it.
double half_step(double value, DType dtype) {
  const int digits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24;
  const int smallest = dtype == DType::f16 ? -24 : dtype == DType::bf16 ? -133 : -149;
  int exponent = 0;
  std::frexp(value, &exponent);  // value in [2^(exponent - 1), 2^exponent)
  return std::ldexp(0.5, std::max(exponent - digits, smallest));
}

}  // namespace

void Stagnation::before_update(optim::FlatParameters& parameters) {
  sample_.clear();
  parameters.gradients();
  for (std::size_t s = 0; s < parameters.size(); ++s) {
    if (!parameters.has_gradient(s)) continue;
    const Tensor value = parameters.slices()[s].variable.value().on_host();
    const Tensor gradient = parameters.slices()[s].variable.state()->grad.on_host();
    const std::int64_t stride = std::max<std::int64_t>(1, value.numel() / kPerParameter);
    for (std::int64_t i = 0; i < value.numel(); i += stride)
      if (const double g = gradient.data<float>()[i]; g != 0 && std::isfinite(g))
        sample_.push_back({s, i, value.at(i), g});
  }
}

std::optional<Warning> Stagnation::after_update(std::int64_t step, const optim::Optimizer& optimizer,
                                                const optim::StepInput& input, bool stochastic) {
  struct Count {
    std::size_t seen = 0, kept = 0;
    std::vector<double> wanted;  // learning rates that would move a weight
    std::size_t first = 0;       // slice
  };
  std::array<Count, 3> counts;
  const optim::UpdateFacts facts = optimizer.facts();
  const std::vector<optim::FlatParameters::Slice>& slices = optimizer.parameters().slices();
  double squares = 0;
  Tensor value;
  std::size_t slice = slices.size();
  for (const Weight& w : sample_) {
    if (w.slice != slice) value = slices[slice = w.slice].variable.value().on_host();
    const double now = value.at(w.index);
    squares += (now - w.value) * (now - w.value);
    if (value.rank() < 2) continue;  // a bias begins at 0, where anything moves it
    Count& count = counts[static_cast<std::size_t>(value.dtype())];
    if (count.seen++ == 0) count.first = w.slice;
    count.kept += now == w.value;
    // Adam and Lion divide the gradient's size out again; SGD steps by it.
    double unit = 1;
    if (!facts.unit_steps) unit = std::abs(w.gradient) * input.inverse_scale * input.clip_factor;
    if (unit > 0) count.wanted.push_back(half_step(w.value, value.dtype()) / unit);
  }
  update_rms_ = sample_.empty() ? 0 : std::sqrt(squares / static_cast<double>(sample_.size()));
  sample_.clear();
  largest_lr_ = std::max(largest_lr_, input.lr);

  std::optional<Warning> warning;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Count& count = counts[static_cast<std::size_t>(dtype)];
    Group& group = group_of(dtype);
    const bool judged = count.seen >= kLeast && input.lr > 0 && input.lr >= kPlannedEnd * largest_lr_ &&
                        !(stochastic && dtype != DType::f32);
    const bool still = judged && static_cast<double>(count.kept) > kStill * static_cast<double>(count.seen);
    group.probes = still ? std::min<std::int64_t>(group.probes + 1, kLooks) : 0;
    if (group.probes < kLooks || group.told != 0 || warning) continue;
    group.told = 1;
    warning = Warning{.kind = WarningKind::kStagnation, .step = step, .module = slices[count.first].name};
    warning->direction = "optimizer";
    warning->dtype = name_of(dtype);
    warning->what = fmt::format(
        "updates vanish: {:.1f} % of the {} weights that have a gradient kept their bits for {} steps at learning rate "
        "{:.3g}",
        100.0 * static_cast<double>(count.kept) / static_cast<double>(count.seen), name_of(dtype),
        kEvery * (kLooks - 1), input.lr);
    warning->advice = fmt::format("from a learning rate of about {:.1g} on half of them would move{}",
                                  count.wanted.empty() ? 0.0 : median(count.wanted),
                                  dtype == DType::f32 ? ""
                                                      : "; f32 masters (--precision bf16 or fp16) or stochastic "
                                                        "rounding keep smaller updates");
  }
  return warning;
}

StateDict Stagnation::state() const {
  StateDict state;
  StateDict::Integers probes, told;
  for (const Group& group : groups_) {
    probes.push_back(group.probes);
    told.push_back(group.told);
  }
  state.put("looks", probes);
  state.put("told", told);
  state.put("largest_lr", largest_lr_);
  return state;
}

void Stagnation::load_state(const StateDict& state) {
  Stagnation loaded;
  if (!state.empty()) {
    const StateDict::Integers &probes = read_counts(state, "looks"), &told = read_counts(state, "told");
    check<CheckpointError>(probes.size() == groups_.size() && told.size() == groups_.size(),
                           "stagnation: wanted {} groups, the checkpoint holds {}", groups_.size(), probes.size());
    for (std::size_t i = 0; i < groups_.size(); ++i) loaded.groups_[i] = {probes[i], told[i]};
    loaded.largest_lr_ = state.number("largest_lr");
  }
  *this = loaded;
}

}  // namespace binade::amp
