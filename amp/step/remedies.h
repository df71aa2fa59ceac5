#pragma once

#include <cstdint>
#include <string>

#include "binade/amp/incident/diagnosis.h"
#include "binade/amp/step/attempt.h"
#include "binade/amp/step/step_result.h"

namespace binade::amp {

/// How training continues after an aborted attempt.
enum class Next : std::uint8_t {
  kRetry,   ///< step() makes another attempt at the same batch
  kReturn,  ///< step() returns: the batch was skipped, or the run rolled back
  kStop,    ///< step() throws a NumericError
};

/// Handles aborted attempts: lowers the loss scale, or finds the cause by replays and applies the cheapest remedy that
/// a replay shows to work. Each remedy is bounded (RemediationOptions, LossScaleOptions), so that every step ends.
class Remedies {
 public:
  /// The arguments must outlive the remedies.
  Remedies(Transaction& transaction, AttemptRunner& runner, const TrainerOptions& options)
      : transaction_(transaction), runner_(runner), options_(options) {}

  void set_recovery(FindRecoveryPoint find) { find_recovery_point_ = std::move(find); }
  void set_repro_sink(ReproSink sink) { repro_sink_ = std::move(sink); }

  /// Changes the transaction or `ongoing`, for the next attempt. Sets result.incident if the abort is an incident.
  Next handle_abort(const Attempt& attempt, OngoingStep& ongoing, StepResult& result);
  /// True if the step would commit with the weights of a checkpoint that a rollback may return to.
  bool earlier_weights_help(OngoingStep& ongoing);
  /// Diagnoses the attempt by replays.
  Diagnosis investigate(const Attempt& attempt, OngoingStep& ongoing);

 private:
  bool lower_scale(const Attempt& attempt, OngoingStep& ongoing, std::string& why);
  /// Returns true if the policy allows a rollback now.
  bool may_roll_back() const;
  /// Returns true if a replay at the lowest loss scale has finite losses and gradients.
  bool finite_at_floor(const OngoingStep& ongoing);
  std::string write_repro_bundle(const Attempt& attempt, const OngoingStep& ongoing, std::int64_t number) const;
  std::string write_shared_bundle(const Attempt& attempt, const OngoingStep& ongoing, std::int64_t number) const;
  /// Runs the step of a failed attempt again with the changes of `variant`, without a commit.
  Attempt replay(const Attempt& failed, const Variant& variant, OngoingStep& ongoing, TapeObserver* observer);
  /// Runs a plan with the weights of the checkpoints that a rollback may return to, until one makes the step finite.
  Attempt replay_with_earlier_weights(const AttemptPlan& plan, OngoingStep& ongoing, TapeObserver* observer);

  // apply_next() tries one remedy after the other. The remedies below return false if they cannot be applied.
  Next apply_next(Incident& incident, const Attempt& attempt, OngoingStep& ongoing);
  bool set_fitting_scale(Incident& incident, const Attempt& attempt, OngoingStep& ongoing);
  bool quarantine_plans(Incident& incident);
  bool promote_ops(Incident& incident);
  bool quarantine(Incident& incident, OngoingStep& ongoing);
  bool mend_averages(Incident& incident, const Attempt& attempt);
  static bool leave_out_micro_batch(Incident& incident, const Attempt& attempt, OngoingStep& ongoing);
  bool skip_batch(Incident& incident);
  bool roll_back(Incident& incident, const OngoingStep& ongoing);
  Next handle_spike(Incident& incident, const OngoingStep& ongoing);

  Transaction& transaction_;
  AttemptRunner& runner_;
  const TrainerOptions& options_;
  FindRecoveryPoint find_recovery_point_;
  ReproSink repro_sink_;
};

}  // namespace binade::amp
