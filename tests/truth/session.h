#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/truth/draw.h"
#include "tests/truth/task.h"

namespace binade::truth {

/// The ways in which a program can run its steps: "plain"; two "micro-batches"; two "threads"; "recompute", with the
/// loss as one recomputed segment; two "phases", each with its optimizer; "tied" weights (the GPT only).
const std::vector<std::string>& ways();

struct SessionOptions {
  std::string model{}, precision = "fp32", way = "plain";
  std::uint64_t seed = 0;
  TaskOptions task{};
  amp::OnNan on_nan = amp::OnNan::kRemedy;
  double lr = 0;  ///< 0: the default of the model
  std::optional<amp::LossScaleOptions> loss_scale{};
  std::optional<optim::Schedule> schedule{};
  bool ema = false;
  bool sgd = false;  ///< plain SGD instead of AdamW
  double clip_norm = 0;
  std::vector<std::string> frozen{};  ///< path prefixes of parameters that the optimizer does not get
  std::int64_t batch = 8, samples = 64;
};

/// The outcome of one call of Trainer::step.
struct Outcome {
  std::vector<amp::StepResult> attempts{};  ///< all completed attempts, in order
  std::string error{};                      ///< message of the error thrown
  std::string thrown{};                     ///< its type: "NumericError", "DataError", "Error"; empty: nothing
  bool committed() const { return thrown.empty() && !attempts.empty() && attempts.back().committed; }
  const amp::Incident* incident() const;  ///< the first one
  bool alarmed() const { return incident() != nullptr || !thrown.empty(); }
};

/// A training of one model, as a user sets it up: runtime, model, optimizer, trainer, loader, recovery points.
class Session {
 public:
  /// Changes one sample of a batch.
  using Damage = std::function<void(Batch& batch, std::int64_t row)>;

  explicit Session(const SessionOptions& options);

  Task& task() { return *task_; }
  amp::Trainer& trainer() { return *trainer_; }
  io::Loader<Batch>& loader() { return *loader_; }
  const SessionOptions& options() const { return options_; }
  const ModelEntry& entry() const { return entry_; }
  amp::Policy policy() const { return amp::Policy::by_name(options_.precision); }
  /// The loss scale of the next attempt.
  double scale() const;

  Batch next() { return loader_->next(); }
  /// The batch of samples that the training never sees.
  Batch held_out_batch() const;
  Outcome step(const Batch& batch);
  /// Makes up to `count` steps; stops at the first with an incident or an error, and returns its outcome.
  std::optional<Outcome> train(std::int64_t count);
  /// The loss of samples that the training never sees, in evaluation mode. It is computed in f32; if there are averaged
  /// weights, with Trainer::evaluate.
  double held_out();
  /// Damages a row of `batch`, and its sample whenever it is loaded again.
  void damage_sample(Batch& batch, std::int64_t row, const Damage& damage);
  /// Keeps the state as a checkpoint that a rollback may return to.
  void keep_recovery_point();
  /// The persistent state that an abort must not change: bytes by name.
  std::map<std::string, std::string> state_bytes();

 private:
  Variable loss(const Batch& batch);
  void take_step(const Batch& batch);

  SessionOptions options_;
  const ModelEntry& entry_;
  Runtime runtime_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<optim::Optimizer> optimizer_, second_optimizer_;  // the second one only in phases
  std::unique_ptr<amp::Trainer> trainer_;
  std::unique_ptr<io::Loader<Batch>> loader_;
  std::set<std::int64_t> spoiled_;
  Damage damage_;
  std::vector<amp::RecoveryPoint> points_;
};

}  // namespace binade::truth
