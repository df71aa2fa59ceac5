#pragma once

#include <cstdint>
#include <string>

#include "binade/amp/incident/diagnosis.h"
#include "binade/amp/step/attempt.h"
#include "binade/amp/step/step_result.h"

namespace binade::amp {

/// What follows an aborted attempt.
enum class Next : std::uint8_t {
  kAgain,   ///< another attempt at the same batch
  kReturn,  ///< the step ends: its batch is skipped, or the run went back to a checkpoint
  kStop,    ///< the run ends
};

/// Answers aborted attempts: lowers the loss scale, or finds the cause by replays and applies the cheapest remedy that
/// a replay shows to work. Every remedy is bounded (RemediationOptions, LossScaleOptions), so that a step ends.
class Remedies {
 public:
  /// All three must outlive the remedies.
  Remedies(Transaction& transaction, AttemptRunner& runner, const TrainerOptions& options)
      : transaction_(transaction), runner_(runner), options_(options) {}

  void set_recovery(FindRecoveryPoint find) { find_recovery_point_ = std::move(find); }
  void set_repro_sink(ReproSink sink) { repro_sink_ = std::move(sink); }

  /// Sets what the next attempt differs in, in the transaction or in `trial`. Leaves in `result` the incident, if the
  /// abort was one.
  Next answer(const Attempt& attempt, Trial& trial, StepResult& result);
  /// Where and why, by replays.
  Diagnosis investigate(const Attempt& attempt, Trial& trial);

 private:
  bool lower_scale(const Attempt& attempt, Trial& trial, std::string& why);
  bool finite_at_floor(const Trial& trial);
  std::string write_repro_bundle(const Attempt& attempt, const Trial& trial, std::int64_t number) const;
  Attempt replay(const Attempt& failed, const Variant& variant, Trial& trial, TapeObserver* observer);
  Attempt replay_with_earlier_weights(const Plan& plan, Trial& trial, TapeObserver* observer);

  // Remedies, the cheapest first. Each returns false if it does not apply.
  Next apply_next(Incident& incident, const Attempt& attempt, Trial& trial);
  bool set_fitting_scale(Incident& incident, const Attempt& attempt, Trial& trial);
  bool promote_ops(Incident& incident);
  bool quarantine(Incident& incident, Trial& trial);
  static bool leave_out_micro_batch(Incident& incident, const Attempt& attempt, Trial& trial);
  bool skip_batch(Incident& incident);
  bool roll_back(Incident& incident, const Trial& trial);
  Next answer_spike(Incident& incident, const Trial& trial);

  Transaction& transaction_;
  AttemptRunner& runner_;
  const TrainerOptions& options_;
  FindRecoveryPoint find_recovery_point_;
  ReproSink repro_sink_;
};

}  // namespace binade::amp
