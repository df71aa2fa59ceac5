#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>

#include "amp/trial.h"
#include "core/backend.h"
#include "core/error.h"
#include "optim/clip.h"

namespace binade::amp {

namespace {

/// The 50th step, the 100th, the 200th, …: of those in which the host reads tensors anyway.
bool compares(std::int64_t step) {
  constexpr std::int64_t kFirst = 50;
  return step % kFirst == 0 && std::has_single_bit(static_cast<std::uint64_t>(step / kFirst));
}

}  // namespace

/// Whether the next step is a first attempt, of what the policy says, with nothing to be planted or hashed.
bool Trainer::is_ordinary(const StepFeed& feed) const {
  return recorder_ && feed.loss_of && feed.contents && attempts_ == 0 && steps_ > 0 && !drill_.planted() &&
         !options_.state_hash && options_.clip_adaptive == 0 &&
         std::ranges::none_of(ladder_.promotions(), [](const Ladder::Promotion& p) { return p.active; });
}

/// The next step as a device makes it by itself; nothing where it is to be made op by op, as one that the device did
/// not commit is: everything is as before then.
std::optional<StepResult> Trainer::make_recorded(const StepFeed& feed) {
  const bool compare = compares(steps_ + 1);
  if (!is_ordinary(feed) || (signs_.reads_tensors(steps_ + 1) && !compare)) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  StepState state;
  state.step = steps_ + 1;
  state.loss_scale = scaler_.scale();
  state.micro_batches = static_cast<int>(feed.origins.size());
  state.lr = next_lr();
  StepRecorder::Step step{.number = state.step,
                          .maths = feed.maths,
                          .loss = feed.loss_of,
                          .policy = options_.precision,
                          .loss_scale = state.loss_scale,
                          .input = step_input(state),
                          .clip_norm = options_.clip_norm,
                          .loss_bound = options_.on_nan == OnNan::kLadder ? spikes_.bound()
                                                                          : std::numeric_limits<double>::infinity(),
                          .telemetry = options_.telemetry,
                          // Steps that are compared stand in for those that are made most often.
                          .looks = compare ? Telemetry::Looks{} : signs_.looks(state.step),
                          .compare = compare};
  for (int i = 0; i < state.micro_batches; ++i) step.batch.push_back(feed.contents(i));
  telemetry_.begin();
  const std::optional<StepRecorder::Outcome> outcome = recorder_->make(step, telemetry_);
  if (!outcome || outcome->cause != Undecided::kNone) {
    abandon();
    return std::nullopt;
  }
  state.loss = outcome->loss;
  state.scan = outcome->scan;
  state.grad_norm = state.scan.norm() * state.inverse_scale();
  if (options_.clip_norm > 0) state.clip_factor = optim::clip_factor(state.grad_norm, options_.clip_norm);
  state.proof = {.finite = true, .by_bound = true};
  StepResult result;
  result.step = state.step;
  result.attempt = ++attempts_;
  result.forward_headroom = telemetry_.least(Direction::kForward);
  result.backward_headroom = telemetry_.least(Direction::kBackward);
  result.loss = state.loss;
  result.grad_norm = state.grad_norm;
  result.loss_scale = state.loss_scale;
  result.lr = state.lr;
  watch_commit(state, Trial(feed), result, [&] { recorder_->committed(*outcome); });
  price({.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
         .bytes = static_cast<double>(backend_of(runtime_.device()).bytes_peak())});
  conclude(result);
  return result;
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
