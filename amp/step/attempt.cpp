#include "binade/amp/step/attempt.h"

#include <cmath>
#include <limits>
#include <unordered_set>

#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/step/transaction.h"
#include "binade/autograd/node.h"
#include "binade/core/backend.h"
#include "binade/core/kernels/table.h"
#include "binade/optim/clip.h"

namespace binade::amp {
namespace {

constexpr std::uint32_t kNan = 0x7fc00000u;

/// Makes the thread-local settings of a step during its life.
struct StepScopes {
  explicit StepScopes(const Policy& policy) : precision(policy) {}
  PolicyScope precision;
  nn::TransactionScope shadows;
  GradGuard grad;
};

}  // namespace

Attempt AttemptRunner::run(const AttemptPlan& plan, const StepFeed& feed, TapeObserver* observer) {
  const ArenaLoan lending(backend_of(transaction_.device()));  // the step frees all its memory before the next begins
  // Faults are injected before observers are notified, so that these observe the faulty values.
  std::optional<ObserverScope> injecting, watching;
  if (faults_.planted()) {
    faults_.before_run(plan.step, plan.first, plan.left_out, plan.samples_per_micro_batch);
    injecting.emplace(faults_);
  }
  if (observer != nullptr) watching.emplace(*observer);
  Attempt attempt;
  attempt.step = plan.step;
  attempt.loss_scale = plan.loss_scale;
  attempt.micro_batches = static_cast<int>(plan.micro_batches.size());
  attempt.lr = plan.lr * faults_.lr_factor();
  const StepScopes scopes(plan.policy);
  transaction_.discard_gradients();
  try {
    double sum = 0;
    int done = 0;
    for (const int micro_batch : plan.micro_batches) {
      attempt.cause = try_micro_batch(attempt, plan, feed, micro_batch);
      sum += attempt.loss;
      ++done;
      if (attempt.commits()) continue;
      if (plan.micro_batches.size() > 1) attempt.bad_micro_batch = micro_batch;
      break;
    }
    // If a micro-batch has a non-finite loss, reports that loss instead of the mean over micro-batches.
    if (attempt.cause != AbortCause::kLoss && attempt.cause != AbortCause::kBadData) attempt.loss = sum / done;
    attempt.grad_norm = attempt.scan.norm() * attempt.inverse_scale();
    if (attempt.commits()) judge_update(attempt);
    if (attempt.commits() && options_.on_nan == OnNan::kRemedy && !plan.any_loss &&
        transaction_.spikes().is_spike(attempt.loss, attempt.grad_norm))
      attempt.cause = AbortCause::kSpike;
  } catch (...) {
    transaction_.roll_back();
    throw;
  }
  return attempt;
}

Attempt AttemptRunner::rehearse(const AttemptPlan& plan, const StepFeed& feed, TapeObserver* observer) {
  Attempt attempt = run(plan, feed, observer);
  transaction_.roll_back();
  return attempt;
}

void AttemptRunner::launch(const DeviceAttempt& step) {
  Backend& backend = backend_of(transaction_.device());
  const KernelTable& table = kernels(transaction_.device());
  const StepScopes scopes(step.policy);
  table.begin_step({step.addresses});
  transaction_.discard_gradients();
  for (int i = 0; i < step.micro_batches; ++i)
    const Variable loss = differentiate(
        i, [&] { return step.loss(i); },
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

/// Runs forward for one micro-batch, and backward with the initial gradient `seed_of(loss)`. If that is an undefined
/// tensor, omits backward.
template <class LossOf, class SeedOf>
Variable AttemptRunner::differentiate(int micro_batch, const LossOf& loss_of, const SeedOf& seed_of) {
  step_context().micro_batch = static_cast<std::uint32_t>(micro_batch);
  step_context().tape_index = 0;
  Variable loss = loss_of();
  check<ArgumentError>(loss.defined() && loss.value().numel() == 1,
                       "trainer: the closure must return a loss of one element; average it over the batch");
  check_overrides(loss);
  if (const Tensor seed = seed_of(loss); seed.defined()) backward(loss, seed);
  return loss;
}

/// Like run_micro_batch(), but takes a DataError of the closure as a fact about the batch.
AbortCause AttemptRunner::try_micro_batch(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed,
                                          int micro_batch) {
  try {
    return run_micro_batch(attempt, plan, feed, micro_batch);
  } catch (const DataError& error) {
    attempt.refused = error.what();
    attempt.loss = std::numeric_limits<double>::quiet_NaN();
    attempt.scan.largest = kNan;
    return AbortCause::kBadData;
  }
}

AbortCause AttemptRunner::run_micro_batch(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed,
                                          int micro_batch) {
  // On a GPU, backward is queued before the loss is read, so that the host synchronizes only once.
  const bool judges_first = transaction_.device() == Device::cpu();
  AbortCause cause = AbortCause::kNone;
  const std::vector<std::int64_t> without = plan.left_out_of(micro_batch);
  const Variable loss = differentiate(
      micro_batch, [&] { return feed.loss(micro_batch, without); },
      [&](const Variable& result) {
        if (judges_first) cause = judge_forward(attempt, result);
        return cause == AbortCause::kNone
                   ? Tensor::full(result.shape(), attempt.loss_scale, result.dtype(), result.device())
                   : Tensor();
      });
  if (cause != AbortCause::kNone) return cause;
  optim::FlatParameters& parameters = transaction_.optimizer().parameters();
  faults_.after_gradients(parameters);
  optim::GradientScan scan = optim::scan_gradients(parameters);
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
  attempt.bad_buffer = first_bad_buffer(transaction_.model());
  return attempt.bad_buffer.empty() ? AbortCause::kNone : AbortCause::kStatistics;
}

optim::StepInput AttemptRunner::update_of(const Attempt& attempt) const {
  return {.inverse_scale = attempt.inverse_scale(),
          .clip_factor = attempt.clip_factor,
          .clip_value = options_.clip_value,
          .lr = attempt.lr};
}

void AttemptRunner::set_clip_factor(Attempt& attempt) const {
  if (options_.clip_norm > 0) attempt.clip_factor = optim::clip_factor(attempt.grad_norm, options_.clip_norm);
}

void AttemptRunner::judge_update(Attempt& attempt) const {
  set_clip_factor(attempt);
  optim::Optimizer& optimizer = transaction_.optimizer();
  if (options_.clip_adaptive > 0)
    optim::clip_adaptive(optimizer.parameters(), {.limit = options_.clip_adaptive}, attempt.inverse_scale());
  attempt.proof = optimizer.prove_finite(update_of(attempt), attempt.scan);
  if (!attempt.proof.finite)
    attempt.cause = AbortCause::kUpdate;
  else if (optim::Ema* averages = transaction_.ema(); averages != nullptr && !averages->finite())
    attempt.cause = AbortCause::kAverages;
}

/// Throws ArgumentError if an override matches no module and no op. Runs once, after the first forward, because the ops
/// are known only from the tape.
void AttemptRunner::check_overrides(const Variable& loss) {
  if (overrides_checked_ || options_.precision.overrides.empty()) return;
  std::vector<std::string> names;
  for (const auto& [path, module] : nn::named_modules(transaction_.model())) names.push_back(path);
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> added;
  const auto add = [&](const Node* node) {
    if (node != nullptr && added.insert(node).second) nodes.push_back(node);
  };
  add(loss.state()->node.get());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    names.push_back(nodes[i]->module_path());
    names.emplace_back(nodes[i]->info().name);
    names.push_back(fmt::format("{}/{}", nodes[i]->module_path(), nodes[i]->info().name));
    for (const Edge& edge : nodes[i]->edges()) add(edge.node.get());
  }
  amp::check_overrides(options_.precision, names);
  overrides_checked_ = true;
}

}  // namespace binade::amp
