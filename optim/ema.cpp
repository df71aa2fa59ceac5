#include "binade/optim/ema.h"

#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/observation.h"
#include "binade/core/state_counts.h"

namespace binade::optim {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

}  // namespace

Ema::Ema(FlatParameters& parameters, const EmaOptions& options)
    : parameters_(&parameters), options_(options), averages_(parameters.allocate(DType::f32)) {
  check<ArgumentError>(options.decay >= 0 && options.decay < 1, "ema: wanted a decay in [0, 1), got {}", options.decay);
  check<ArgumentError>(!(options.warmup && options.debias),
                       "ema: warmup and debias both shorten the start; choose one");
  for (std::size_t i = 0; i < parameters.size(); ++i) average(i).copy_from(parameters.slices()[i].variable.value());
}

float Ema::next_weight(std::int64_t ahead) const {
  const auto t = static_cast<double>(updates_ + ahead + 1);
  double weight = 1 - options_.decay;
  if (options_.warmup) weight = 1 - std::min(options_.decay, (1 + t) / (10 + t));
  // An average that starts from 0 and is divided by 1 - decay^t equals a running mean with this weight, which needs no
  // second buffer and is exact at t = 1.
  if (options_.debias) weight /= 1 - std::pow(options_.decay, t);
  return static_cast<float>(weight);
}

/// Calls f with the arguments of the kernel that updates the averages.
template <class F>
void Ema::with_arguments(F&& f, std::span<std::uint32_t> largest) {
  std::vector<float*> averages;
  std::vector<const void*> values;
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < parameters_->size(); ++i) {
    const Tensor& value = parameters_->slices()[i].variable.value();
    averages.push_back(average(i).mutable_data<float>());
    values.push_back(value.raw());
    dtypes.push_back(value.dtype());
  }
  f(AverageArguments{parameters_->blocks(), averages, values, dtypes, next_weight(), largest});
}

void Ema::update() {
  const bool reports = parameters_->device() == Device::cpu();
  std::vector<std::uint32_t> largest(reports ? parameters_->blocks().size() : 0);
  with_arguments([&](const AverageArguments& a) { kernels(parameters_->device()).average(a); }, largest);
  committed();
  if (!reports) return;
  finite_ = std::ranges::all_of(largest, [](std::uint32_t word) { return word < kInfinity; });
  finite_version_ = averages_.version();
}

bool Ema::finite() {
  if (finite_version_ == averages_.version()) return finite_;
  const Observation largest = observe(averages_);
  finite_ = std::max(largest.low, largest.wide) < kInfinity;
  finite_version_ = averages_.version();
  return finite_;
}

void Ema::mend(const StateDict* saved) {
  double kept = 1;
  if (saved != nullptr)
    for (std::int64_t missed = read_count(*saved, "updates") - updates_; missed < 0; ++missed)
      kept *= 1 - static_cast<double>(next_weight(missed));
  for (std::size_t i = 0; i < parameters_->size(); ++i) {
    const FlatParameters::Slice& slice = parameters_->slices()[i];
    const Tensor now = slice.variable.value().on_host();
    const Tensor before = saved != nullptr ? saved->tensor("average/" + slice.name).on_host() : now;
    Tensor mended = average(i).on_host().clone();
    auto* a = mended.mutable_data<float>();
    for (std::int64_t j = 0; j < mended.numel(); ++j) {
      if (std::isfinite(a[j])) continue;
      const double w = now.at(j), known = std::isfinite(before.at(j)) ? before.at(j) : w;
      a[j] = static_cast<float>(w + kept * (known - w));
    }
    average(i).copy_from(mended);
  }
}

void Ema::launch(const StepAddresses& addresses) {
  with_arguments([&](const AverageArguments& a) { kernels(parameters_->device()).decided_average({addresses, a}); });
}

void Ema::committed() {
  averages_.bump_version();
  ++updates_;
}

StateDict Ema::state() const {
  StateDict state;
  state.put("updates", updates_);
  for (std::size_t i = 0; i < parameters_->size(); ++i)
    state.put("average/" + parameters_->slices()[i].name, average(i));
  return state;
}

void Ema::check_state(const StateDict& state) const {
  read_count(state, "updates");
  for (const FlatParameters::Slice& slice : parameters_->slices()) {
    const Tensor& saved = state.tensor("average/" + slice.name);
    check<CheckpointError>(saved.shape() == slice.variable.shape() && saved.dtype() == DType::f32,
                           "ema: {} is {} {} in the checkpoint, f32 {} here", slice.name,
                           binade::name_of(saved.dtype()), saved.shape(), slice.variable.shape());
  }
}

void Ema::load_state(const StateDict& state) {
  check_state(state);
  updates_ = read_count(state, "updates");
  for (std::size_t i = 0; i < parameters_->size(); ++i)
    average(i).copy_from(state.tensor("average/" + parameters_->slices()[i].name));
}

}  // namespace binade::optim
