#include "binade/amp/step/plan.h"

#include <numeric>

namespace binade::amp {

bool AttemptPlan::is_whole(const StepFeed& feed) const {
  if (part || by_itself || !left_out.empty() || micro_batches.size() != feed.origins.size()) return false;
  for (std::size_t i = 0; i < micro_batches.size(); ++i)
    if (micro_batches[i] != static_cast<int>(i)) return false;
  return true;
}

void AttemptPlan::leave_out(std::int64_t sample) {
  left_out.insert(std::ranges::lower_bound(left_out, sample), sample);
  const auto micro_batch = static_cast<int>(sample / samples_per_micro_batch);
  if (samples_left_in(micro_batch) == 0) std::erase(micro_batches, micro_batch);
}

std::vector<std::int64_t> AttemptPlan::left_out_of(int micro_batch) const {
  std::vector<std::int64_t> samples;
  for (const std::int64_t sample : left_out)
    if (sample / samples_per_micro_batch == micro_batch) samples.push_back(sample % samples_per_micro_batch);
  return samples;
}

std::int64_t AttemptPlan::samples_left_in(int micro_batch) const {
  return samples_per_micro_batch - std::ssize(left_out_of(micro_batch));
}

std::int64_t AttemptPlan::original(std::int64_t sample) const {
  const std::int64_t begin = sample / samples_per_micro_batch * samples_per_micro_batch;
  for (const std::int64_t gone : left_out)  // in ascending order
    if (gone >= begin && gone <= sample) ++sample;
  return sample;
}

OngoingStep::OngoingStep(const StepFeed& from, AttemptPlan with) : feed(from), plan(std::move(with)) {
  plan.micro_batches.resize(feed.origins.size());
  std::iota(plan.micro_batches.begin(), plan.micro_batches.end(), 0);
  if (feed.origins.front() != nullptr) plan.samples_per_micro_batch = std::ssize(feed.origins.front()->samples);
}

std::vector<std::int64_t> OngoingStep::removable_samples() const {
  std::vector<std::int64_t> samples;
  const std::int64_t stride = plan.samples_per_micro_batch;
  if (!feed.can_leave_out_samples || stride == 0) return samples;
  for (const int micro_batch : plan.micro_batches)
    for (std::int64_t i = 0; i < plan.samples_left_in(micro_batch); ++i) samples.push_back(micro_batch * stride + i);
  return samples;
}

void OngoingStep::nan_resolved() {
  before_nan.reset();
  nan_is_overflow = false;
}

StepContextScope::StepContextScope(std::uint64_t seed, std::int64_t step) : previous_(step_context()) {
  step_context() = StepContext{};
  step_context().seed = seed;
  step_context().step = static_cast<std::uint64_t>(step);
}
StepContextScope::~StepContextScope() { step_context() = std::move(previous_); }

}  // namespace binade::amp
