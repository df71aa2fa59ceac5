#include <algorithm>
#include <bit>
#include <limits>

#include "binade/amp/step/trial.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/optim/clip.h"

namespace binade::amp {

namespace {

/// The 50th step, the 100th, the 200th, …: of those in which the host reads tensors anyway.
bool compares(std::int64_t step) {
  constexpr std::int64_t kFirst = 50;
  return step % kFirst == 0 && std::has_single_bit(static_cast<std::uint64_t>(step / kFirst));
}

}  // namespace

/// Whether a step is a first attempt, of what the policy says, with nothing to be planted or hashed.
bool Trainer::is_ordinary(const StepFeed& feed) const {
  return recorder_ && feed.loss_of && feed.contents && attempts_ == 0 && steps_ > 0 && !drill_.planted() &&
         !options_.state_hash && options_.clip_adaptive == 0 &&
         std::ranges::none_of(ladder_.promotions(), [](const Ladder::Promotion& p) { return p.active; });
}

/// What the step that comes `ahead` steps after the next begins with.
StepState Trainer::state_of(const StepFeed& feed, std::int64_t ahead) const {
  StepState state;
  state.step = steps_ + 1 + ahead;
  state.loss_scale = scaler_.scale();
  state.micro_batches = static_cast<int>(feed.origins.size());
  state.lr = lr_of(state.step);
  return state;
}

StepRecorder::Step Trainer::recorded(const StepFeed& feed, const StepState& state) const {
  StepRecorder::Step step{.number = state.step,
                          .maths = feed.maths,
                          .loss = feed.loss_of,
                          .policy = options_.precision,
                          .loss_scale = state.loss_scale,
                          .input = step_input(state),
                          .clip_norm = options_.clip_norm,
                          .loss_bound = options_.on_nan == OnNan::kLadder ? spikes_.bound(state.step - 1 - steps_)
                                                                          : std::numeric_limits<double>::infinity(),
                          .telemetry = options_.telemetry,
                          .looks = signs_.looks(state.step)};
  for (int i = 0; i < state.micro_batches; ++i) step.batch.push_back(feed.contents(i));
  return step;
}

/// The next step as a device makes it by itself; nothing where it is to be made op by op, as one that the device did
/// not commit is: everything is as before then.
std::optional<StepResult> Trainer::make_recorded(const StepFeed& feed) {
  const bool compare = compares(steps_ + 1);
  if (!is_ordinary(feed) || (signs_.reads_tensors(steps_ + 1) && !compare)) return std::nullopt;
  const StepState state = state_of(feed, 0);
  StepRecorder::Step step = recorded(feed, state);
  if (compare) {
    step.compare = true;
    step.looks = {};  // it stands in for those that are made most often
  }
  telemetry_.begin();
  const std::optional<StepRecorder::Outcome> outcome = recorder_->make(step, telemetry_);
  if (outcome && outcome->commits()) return take_over(feed, state, *outcome);
  abandon();
  return std::nullopt;
}

/// A step that the device committed.
StepResult Trainer::take_over(const StepFeed& feed, StepState state, const StepRecorder::Outcome& outcome) {
  state.loss = outcome.loss;
  state.scan = outcome.scan;
  state.grad_norm = state.scan.norm() * state.inverse_scale();
  if (options_.clip_norm > 0) state.clip_factor = optim::clip_factor(state.grad_norm, options_.clip_norm);
  state.proof = {.finite = true, .by_bound = true};
  StepResult result;
  result.step = state.step;
  result.attempt = ++attempts_;
  tell(state, result);
  watch_commit(state, Trial(feed), result, [&] { recorder_->committed(outcome); });
  price();
  result.last = true;
  conclude(result);
  return result;
}

// ---- steps that are sent before the host has heard of those before them --------------------------

/// Sends the step behind those that are under way, as many as there may be; nothing where it is one to be made by
/// itself. What was decided of later steps by those that are not known yet is nothing: decisions come kTelemetryDelay
/// steps late. A result that is not under way is one of a step before, which made the run go back.
std::optional<StepResult> Trainer::send_ahead(const StepFeed& feed) {
  if (!recorder_ || options_.ahead == 0 || !feed.kept) return std::nullopt;
  while (under_way() >= options_.ahead)
    if (std::optional<StepResult> back = settle_oldest()) return back;
  const std::int64_t ahead = under_way();
  const StepState state = state_of(feed, ahead);
  if (!is_ordinary(feed) || compares(state.step) || signs_.reads_tensors(state.step) || signs_.has_due(state.step) ||
      !scaler_.stays_for(ahead) || !recorder_->send(recorded(feed, state)))
    return std::nullopt;
  if (ahead == 0) begun_ = std::chrono::steady_clock::now();
  sent_.push_back({feed.kept(), state});
  StepResult result;
  result.step = state.step;
  result.loss_scale = state.loss_scale;
  result.lr = state.lr;
  result.under_way = true;
  return result;
}

/// The oldest step that is under way. One that the device did not commit is made again, op by op, and then those behind
/// it, of which it committed none. Where a step makes the run go back to a checkpoint, its result; those behind it are
/// dropped then: their batches come again.
std::optional<StepResult> Trainer::settle_oldest() {
  telemetry_.begin();
  const StepRecorder::Outcome outcome = recorder_->bring(telemetry_);
  if (outcome.commits()) {
    const Sent sent = std::move(sent_.front());
    sent_.pop_front();
    take_over(sent.feed, sent.state, outcome);
    return std::nullopt;
  }
  abandon();
  Recorded recorded = Recorded::kNot;
  for (const Sent& sent : std::exchange(sent_, {})) {
    StepResult result = make_step(sent.feed, std::exchange(recorded, Recorded::kWherePossible));
    if (result.went_back()) return result;
  }
  return std::nullopt;
}

std::optional<StepResult> Trainer::settle_all() {
  while (!sent_.empty())
    if (std::optional<StepResult> back = settle_oldest()) return back;
  return std::nullopt;
}

bool Trainer::has_made(std::int64_t steps) {
  if (steps_ + under_way() < steps) return false;
  settle();
  return steps_ >= steps;
}

/// An attempt that takes the memory of recordings where there is no other.
StepState Trainer::attempt_with_room(const Plan& plan, const StepFeed& feed) {
  TapeObserver* const observer = options_.telemetry ? &telemetry_ : nullptr;
  try {
    return attempt(plan, feed, observer);
  } catch (const OutOfMemoryError&) {
    if (!recorder_ || !recorder_->holds_recordings()) throw;
  }
  recorder_->forget();
  backend_of(runtime_.device()).trim();
  telemetry_.begin(signs_.looks(steps_ + 1));
  return attempt(plan, feed, observer);
}

}  // namespace binade::amp
