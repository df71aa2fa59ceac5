#include "binade/amp/step/attempt.h"

#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/ranks/agree.h"
#include "binade/amp/ranks/ballot.h"
#include "binade/amp/ranks/bytes.h"
#include "binade/amp/ranks/gradient_tree.h"
#include "binade/amp/ranks/statistics.h"
#include "binade/amp/step/common_state.h"
#include "binade/amp/step/transaction.h"
#include "binade/autograd/excluded_leaves.h"
#include "binade/autograd/node.h"
#include "binade/core/backend.h"
#include "binade/core/kernels/table.h"
#include "binade/nn/module_use.h"
#include "binade/optim/clip.h"

namespace binade::amp {
namespace {

constexpr std::uint32_t kNan = 0x7fc00000u;

/// Returns the next StepContext::attempt.
std::uint64_t next_attempt() {
  static std::atomic<std::uint64_t> attempts = 0;
  return ++attempts;
}

/// Sets the thread-local settings of a step, while it exists.
struct StepScopes {
  StepScopes(const Policy& policy, const nn::Shadows& of_buffers) : precision(policy), shadows(of_buffers) {}
  PolicyScope precision;
  nn::TransactionScope shadows;
  GradGuard grad;
};

/// Sets `scan` on every rank to that of rank `from`, which computed the gradients of the bad micro-batch.
void share_scan(Communicator& ranks, int from, optim::GradientScan& scan, std::string_view what) {
  if (ranks.alone()) return;
  ByteWriter out;
  out.put(scan.words).put(scan.largest).put(scan.sum_squares).put(static_cast<std::uint64_t>(scan.gradients));
  const Bytes bytes = ranks.broadcast(out.bytes(), from, what);
  ByteReader in(bytes);
  scan.words = in.get<std::vector<std::uint32_t>>();
  scan.largest = in.get<std::uint32_t>();
  scan.sum_squares = in.get<double>();
  scan.gradients = in.get<std::uint64_t>();
}

}  // namespace

/// Scans the gradients of the phase's optimizers together. Sets phase.scans: words and number of gradients of each
/// optimizer. Returns the scan, with a word for each parameter of all optimizers.
optim::GradientScan AttemptRunner::scan_gradients(Phase& phase) const {
  std::vector<optim::FlatParameters*> scanned;
  for (const std::size_t i : phase.optimizers) scanned.push_back(&transaction_.optimizers()[i]->parameters());
  optim::GradientScan all = optim::scan_gradients(scanned);
  std::span<const std::uint32_t> words = all.words;
  std::vector<std::uint32_t> placed(transaction_.parameters().size(), 0);
  phase.scans.clear();
  for (std::size_t k = 0; k < scanned.size(); ++k) {
    const auto own = words.first(scanned[k]->size());
    words = words.subspan(own.size());
    optim::GradientScan& one = phase.scans.emplace_back();
    one.words.assign(own.begin(), own.end());
    for (std::size_t i = 0; i < own.size(); ++i) one.gradients += scanned[k]->has_gradient(i) ? 1 : 0;
    std::ranges::copy(own,
                      placed.begin() + static_cast<std::ptrdiff_t>(transaction_.first_parameter(phase.optimizers[k])));
  }
  all.words = std::move(placed);
  return all;
}

Attempt AttemptRunner::run(const AttemptPlan& plan, const StepFeed& feed, TapeObserver* observer,
                           TapeObserver* second_observer) {
  for (std::size_t phase = 0; phase + 1 < feed.phases.size(); ++phase)
    transaction_.reserve_undo(transaction_.indices_of(feed.phases[phase]));
  const ArenaLoan lending(backend_of(transaction_.device()));  // the step frees all its memory before the next begins
  // Faults are injected before observers are notified, so that these observe the faulty values.
  std::optional<ObserverScope> injecting, watching, watching_too, naming;
  if (faults_.planted()) {
    faults_.before_run(plan.step, plan.first, plan.left_out, plan.samples_per_micro_batch);
    injecting.emplace(faults_);
  }
  if (observer != nullptr) watching.emplace(*observer);
  if (second_observer != nullptr) watching_too.emplace(*second_observer);
  if (!overrides_checked_ && !options_.precision.overrides.empty()) {
    if (!names_) names_.emplace(transaction_.model());
    naming.emplace(*names_);
  }
  Attempt attempt;
  attempt.step = plan.step;
  attempt.loss_scale = plan.loss_scale;
  attempt.micro_batches = static_cast<int>(plan.micro_batches.size());
  const StepScopes scopes(plan.policy, transaction_.shadows());
  step_context().attempt = next_attempt();
  // A part of a step may lack the micro-batch or the sample that a parameter's gradient comes from.
  const std::unique_ptr<Registration::Watch> registered = plan.is_whole(feed) ? registration_.watch() : nullptr;
  try {
    Phase phase{.lr_factor = faults_.lr_factor(), .watch = registered.get()};
    for (phase.number = 0; phase.number < static_cast<int>(feed.phases.size()) && attempt.commits(); ++phase.number) {
      if (phase.number > 0) transaction_.update_before_verdict(plan.step, attempt.phases.back().updates);
      run_phase(attempt, plan, feed, phase);
    }
    if (feed.phases.size() > 1 && attempt.commits()) attempt.scan.words = std::move(phase.words);
    if (attempt.commits()) judge_step(attempt, plan);
    if (attempt.commits() && plan.is_whole(feed) && !overrides_checked_)
      agree(ranks(), fmt::format("the check of overrides in step {}", plan.step), [&] { check_overrides(); });
    if (attempt.commits() && registered) registration_.passed(*registered, plan.step);
  } catch (...) {
    transaction_.roll_back();
    throw;
  }
  return attempt;
}

/// Returns the parameters that a phase of these optimizers does not train.
const LeafSet& AttemptRunner::excluded_in(const std::vector<std::size_t>& optimizers) {
  const auto found = excluded_.find(optimizers);
  return found != excluded_.end() ? found->second
                                  : excluded_.emplace(optimizers, untrained_by(transaction_, optimizers)).first->second;
}

/// Runs forward and backward of a phase, and judges it.
void AttemptRunner::run_phase(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase) {
  phase.optimizers = transaction_.indices_of(feed.phases[static_cast<std::size_t>(phase.number)]);
  attempt.lr = transaction_.lr_of(plan.step, phase.optimizers.front()) * phase.lr_factor;
  attempt.lr_cut = transaction_.remediation().lr_factor(plan.step) * phase.lr_factor;
  phase.excluded = &excluded_in(phase.optimizers);
  PhaseAttempt& result = attempt.phases.emplace_back();
  if (feed.phases.size() > 1) result.name = transaction_.names_of(phase.optimizers);
  transaction_.discard_gradients();
  const auto micro_batches = static_cast<int>(feed.origins.size());
  if (const int leaves = plan.by_itself ? 1 : transaction_.leaves_of(micro_batches); leaves > 1)
    run_leaves(attempt, plan, feed, phase, leaves);
  else
    run_in_order(attempt, plan, feed, phase);
  phase.first_op = phase.next_op;
  attempt.grad_norm = attempt.scan.norm() * attempt.inverse_scale();
  result.loss = attempt.loss;
  result.grad_norm = attempt.grad_norm;
  phase.words.resize(attempt.scan.words.size());
  std::ranges::transform(phase.words, attempt.scan.words, phase.words.begin(), std::ranges::max);
  if (attempt.commits() && phase.watch != nullptr)
    agree(ranks(), fmt::format("the check of the model in step {}", plan.step), [&] {
      registration_.check_phase(*phase.watch, phase.optimizers, phase.scans,
                                [&] { feed.loss(phase.number, feed.first, {}); });
    });
  if (attempt.commits()) judge_updates(attempt, phase);
}

/// Runs the micro-batches of a phase one after the other, each of which adds to the gradients.
void AttemptRunner::run_in_order(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase) {
  double sum = 0;
  int done = 0;
  for (const int micro_batch : plan.micro_batches) {
    attempt.cause = try_micro_batch(attempt, plan, feed, phase, micro_batch);
    sum += attempt.loss;
    ++done;
    if (attempt.commits()) continue;
    if (plan.micro_batches.size() > 1) attempt.bad_micro_batch = micro_batch;
    break;
  }
  // If a micro-batch has a non-finite loss, reports that loss instead of the mean over micro-batches.
  if (attempt.cause != AbortCause::kLoss && attempt.cause != AbortCause::kBadData) attempt.loss = sum / done;
}

Communicator& AttemptRunner::ranks() const { return transaction_.ranks(); }

/// Runs the micro-batches of a leaf that are in the plan, up to the first bad one. Each adds to the gradients.
void AttemptRunner::run_leaf(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                             LeafRange micro_batches, Ballot& ballot) {
  for (const int micro_batch : plan.micro_batches) {
    if (!micro_batches.contains(micro_batch)) continue;
    check<ArgumentError>(feed.holds(micro_batch),
                         "trainer: rank {} of {} computes micro-batch {} of the step, which it was not given; pass all "
                         "micro-batches, or take them from trainer.batches(loader)",
                         ranks().rank(), ranks().size(), micro_batch);
    ranks().begins(fmt::format("micro-batch {} of step {}", micro_batch, plan.step));
    const AbortCause cause = try_micro_batch(attempt, plan, feed, phase, micro_batch);
    ballot.losses.push_back({micro_batch, attempt.loss});
    if (cause == AbortCause::kNone) continue;
    ballot.bad_micro_batch = micro_batch;
    ballot.cause = cause;
    ballot.refused = attempt.refused;
    ballot.bad_buffer = attempt.bad_buffer;
    return;
  }
}

/// Runs this rank's leaves of a phase, and adds their gradients to those of the other leaves. Afterwards all ranks have
/// the same verdict and, if nothing is bad, the same gradients, statistics and loss. If one rank throws, all ranks
/// throw.
void AttemptRunner::run_leaves(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                               int leaves) {
  const LeafRange own = share_of(leaves, ranks().rank(), ranks().size());
  Ballot ballot{.common = common_state(transaction_, attempt, plan, feed, phase.number)};
  const nn::StatisticsLog log;
  std::vector<optim::FlatParameters*> parameters;
  for (const std::size_t i : phase.optimizers) parameters.push_back(&transaction_.optimizers()[i]->parameters());
  GradientTree tree(std::move(parameters), leaves);
  StartValues start;
  std::exception_ptr error;
  try {
    if (!ranks().alone()) start = start_values(transaction_.model());
    for (int leaf = own.begin; leaf < own.end; ++leaf) {
      const LeafRange run = micro_batches_of(static_cast<int>(feed.origins.size()), leaves, {leaf, leaf + 1});
      run_leaf(attempt, plan, feed, phase, run, ballot);
      if (ballot.bad_micro_batch >= 0) break;
      tree.add(leaf);
    }
    ballot.next_op = phase.next_op;
    ballot.present = tree.present();
    if (!ranks().alone()) ballot.statistics = encode_statistics(transaction_.model(), start, log);
  } catch (const std::exception& caught) {
    error = std::current_exception();
    ballot.error = *caught.what() == 0 ? "an exception" : caught.what();
  } catch (...) {
    error = std::current_exception();
    ballot.error = "an exception that is no std::exception";
  }
  const std::string what = fmt::format("the ballot of step {}", plan.step);
  ballot.seconds = ranks().seconds_of_own() / static_cast<double>(std::max<std::size_t>(1, ballot.losses.size()));
  const std::vector<Bytes> encoded = ranks().gather(ballot.encoded(), what);
  if (error) std::rethrow_exception(error);
  std::vector<Ballot> ballots;
  for (const Bytes& bytes : encoded) ballots.push_back(Ballot::decoded(bytes));

  const Vote vote = verdict_of(ballots);
  std::vector<double> seconds;
  for (const Ballot& one : ballots) seconds.push_back(one.seconds);
  if (std::string note = pace_.observe(seconds); !note.empty()) pace_note_ = std::move(note);
  attempt.cause = vote.cause;
  attempt.loss = vote.loss;
  attempt.refused = vote.refused;
  attempt.bad_buffer = vote.bad_buffer;
  phase.next_op = vote.next_op;
  if (!attempt.commits()) {
    if (plan.micro_batches.size() > 1) attempt.bad_micro_batch = vote.bad_micro_batch;
    if (!ranks().alone()) attempt.bad_rank = vote.bad_rank;
    share_scan(ranks(), vote.bad_rank, attempt.scan, what);
    return;
  }
  std::vector<std::vector<std::vector<std::uint8_t>>> present;
  std::vector<std::span<const std::byte>> statistics;
  for (Ballot& one : ballots) {
    present.push_back(std::move(one.present));
    statistics.emplace_back(one.statistics);
  }
  tree.finish(ranks(), present, fmt::format("the gradients of step {}", plan.step));
  attempt.scan = scan_gradients(phase);
  attempt.cause = judge_gradients(attempt.scan);
  if (ranks().alone()) return;
  replay_statistics(transaction_.model(), start, statistics);
  if (attempt.commits()) attempt.bad_buffer = first_non_finite_buffer(transaction_.model());
  if (!attempt.bad_buffer.empty()) attempt.cause = AbortCause::kStatistics;
}

/// Judges the step as a whole, after its phases. Adds up their losses and gradients.
void AttemptRunner::judge_step(Attempt& attempt, const AttemptPlan& plan) const {
  if (attempt.phases.size() > 1) {
    attempt.loss = 0;
    double squares = 0;
    for (const PhaseAttempt& phase : attempt.phases) {
      attempt.loss += phase.loss;
      squares += phase.grad_norm * phase.grad_norm;
    }
    attempt.grad_norm = std::sqrt(squares);
  }
  if (!transaction_.averages_are_finite())
    attempt.cause = AbortCause::kAverages;
  else if (options_.on_nan == OnNan::kRemedy && !plan.any_loss &&
           transaction_.spikes().is_spike(attempt.loss, attempt.grad_norm))
    attempt.cause = AbortCause::kSpike;
}

Attempt AttemptRunner::rehearse(const AttemptPlan& plan, const StepFeed& feed, TapeObserver* observer) {
  Attempt attempt = run(plan, feed, observer);
  transaction_.roll_back();
  return attempt;
}

void AttemptRunner::launch(const DeviceAttempt& step) {
  Backend& backend = backend_of(transaction_.device());
  const KernelTable& table = kernels(transaction_.device());
  const StepScopes scopes(step.policy, transaction_.shadows());
  const LeafSet& excluded = excluded_in(transaction_.indices_of({}));
  table.begin_step({step.addresses});
  transaction_.discard_gradients();
  for (int i = 0; i < step.micro_batches; ++i)
    const Variable loss = differentiate(
        i, {}, excluded, [&] { return step.loss(i); },
        [&](const Variable& result) {
          check<DTypeError>(result.dtype() == DType::f32, "trainer: a captured step requires a loss in f32, got {}",
                            name_of(result.dtype()));
          backend.copy(step.addresses.losses + i, result.value().raw(), sizeof(float), CopyKind::kDeviceToDevice,
                       Stream{transaction_.device()});
          return step.seed.view_at(0, result.shape());
        });
  transaction_.launch_commit(step.addresses);
  table.end_step({});
}

/// Runs forward for one micro-batch, whose ops are numbered from `first_op` on, and backward with the initial gradient
/// `seed_of(loss)`. Computes no gradients of the leaves in `excluded`. If the initial gradient is an undefined tensor,
/// omits backward.
template <class LossOf, class SeedOf>
Variable AttemptRunner::differentiate(int micro_batch, const OpNumbers& first_op, const LeafSet& excluded,
                                      const LossOf& loss_of, const SeedOf& seed_of) {
  step_context().micro_batch = static_cast<std::uint32_t>(micro_batch);
  step_context().next = first_op;
  const std::uint64_t writes = transaction_.other_writes();
  Variable loss = loss_of();
  if (transaction_.other_writes() != writes) {
    const std::string& last = nn::ModuleUse::last_parameter();
    throw ArgumentError(fmt::format(
        "trainer: the closure wrote a parameter{}, which a step can neither commit nor undo; hold numbers that forward "
        "writes in an nn::Buffer, or write the parameter before the first step",
        last.empty() ? "" : fmt::format(" ({})", last)));
  }
  check<ArgumentError>(loss.defined(), "trainer: the closure returned an undefined Variable; return the loss");
  check<ArgumentError>(loss.value().numel() == 1,
                       "trainer: the closure must return a loss of one element, got {}; average it over the batch",
                       loss.value().shape());
  const Tensor seed = seed_of(loss);
  if (!seed.defined()) return loss;
  const ExcludedLeaves scope(excluded);
  backward(loss, seed);
  return loss;
}

/// Like run_micro_batch(), but turns a DataError of the closure into AbortCause::kBadData.
AbortCause AttemptRunner::try_micro_batch(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                                          int micro_batch) {
  try {
    return run_micro_batch(attempt, plan, feed, phase, micro_batch);
  } catch (const DataError& error) {
    attempt.refused = error.what();
    attempt.loss = std::numeric_limits<double>::quiet_NaN();
    attempt.scan.largest = kNan;
    return AbortCause::kBadData;
  }
}

AbortCause AttemptRunner::run_micro_batch(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                                          int micro_batch) {
  // On a GPU, backward is queued before the loss is read, so that the host synchronizes only once.
  const bool judges_first = transaction_.device() == Device::cpu();
  AbortCause cause = AbortCause::kNone;
  const std::vector<std::int64_t> without = plan.left_out_of(micro_batch);
  const Variable loss = differentiate(
      micro_batch, phase.first_op, *phase.excluded, [&] { return feed.loss(phase.number, micro_batch, without); },
      [&](const Variable& result) {
        if (judges_first) cause = judge_forward(attempt, result);
        return cause == AbortCause::kNone
                   ? Tensor::full(result.shape(), attempt.loss_scale, result.dtype(), result.device())
                   : Tensor();
      });
  // The next phase continues the numbering of ops, so that observers and random streams tell its ops apart.
  phase.next_op = later(phase.next_op, step_context().next);
  if (cause != AbortCause::kNone) return cause;
  faults_.after_gradients(transaction_.parameters());
  optim::GradientScan scan = scan_gradients(phase);
  if (!judges_first) cause = judge_forward(attempt, loss);
  if (cause != AbortCause::kNone) return cause;
  attempt.scan = std::move(scan);
  return judge_gradients(attempt.scan);
}

AbortCause AttemptRunner::judge_forward(Attempt& attempt, const Variable& loss) const {
  attempt.loss = loss.item();
  if (!std::isfinite(attempt.loss)) {
    attempt.scan.largest = kNan;  // there are no gradients, and their norm is reported as nan
    return AbortCause::kLoss;
  }
  attempt.bad_buffer = first_non_finite_buffer(transaction_.model());
  return attempt.bad_buffer.empty() ? AbortCause::kNone : AbortCause::kStatistics;
}

/// `lr_factor`: factor of injected faults on the learning rate.
OptimizerUpdate AttemptRunner::update_of(const Attempt& attempt, std::size_t optimizer, double lr_factor) const {
  return {optimizer,
          {.inverse_scale = attempt.inverse_scale(),
           .clip_factor = attempt.clip_factor,
           .clip_value = options_.clip_value,
           .lr = transaction_.lr_of(attempt.step, optimizer) * lr_factor,
           .step = attempt.step,
           .lr_cut = attempt.lr_cut}};
}

std::vector<OptimizerUpdate> AttemptRunner::updates_of(const Attempt& attempt) const {
  std::vector<OptimizerUpdate> updates;
  for (std::size_t i = 0; i < transaction_.optimizers().size(); ++i) updates.push_back(update_of(attempt, i, 1));
  return updates;
}

std::vector<std::string> AttemptRunner::take_notes(const StepFeed& feed) {
  std::vector<std::string> notes;
  for (std::string note : {take_capture_note(feed), std::exchange(pace_note_, {})})
    if (!note.empty()) notes.push_back(std::move(note));
  return notes;
}

std::string AttemptRunner::take_capture_note(const StepFeed& feed) {
  const bool has_phases = feed.phases.size() > 1 || !feed.phases.front().empty();
  const bool is_alone = transaction_.ranks().alone();
  const bool has_reason = options_.record && (has_phases || !is_alone || !transaction_.can_be_captured());
  if (!has_reason || std::exchange(capture_noted_, true)) return "";
  const char* of_trainer = is_alone ? "a model follows another one" : "they have several ranks";
  return fmt::format("steps are not captured: {}", has_phases ? "they have phases" : of_trainer);
}

void AttemptRunner::set_clip_factor(Attempt& attempt) const {
  if (options_.clip_norm > 0) attempt.clip_factor = optim::clip_factor(attempt.grad_norm, options_.clip_norm);
}

/// Checks the updates of a phase, and adds them to the attempt if they are finite.
void AttemptRunner::judge_updates(Attempt& attempt, const Phase& phase) const {
  set_clip_factor(attempt);
  for (std::size_t i = 0; i < phase.optimizers.size(); ++i) {
    optim::Optimizer& optimizer = *transaction_.optimizers()[phase.optimizers[i]];
    if (options_.clip_adaptive > 0)
      optim::clip_adaptive(optimizer.parameters(), {.limit = options_.clip_adaptive}, attempt.inverse_scale());
    const OptimizerUpdate& update = attempt.phases.back().updates.emplace_back(
        update_of(attempt, phase.optimizers[i], phase.lr_factor));
    attempt.proof = optimizer.prove_finite(update.input, phase.scans[i]);
    if (attempt.proof.finite) continue;
    attempt.cause = AbortCause::kUpdate;
    attempt.lr = update.input.lr;
    return;
  }
}

/// Throws ArgumentError if an override matches no module and no op. Runs once, after the first whole attempt: an op may
/// be in one phase or micro-batch only.
void AttemptRunner::check_overrides() {
  if (names_) names_->check(options_.precision);
  names_.reset();
  overrides_checked_ = true;
}

}  // namespace binade::amp
