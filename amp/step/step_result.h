#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/incident/incident.h"
#include "binade/amp/warnings/warning.h"
#include "binade/amp/watch/headroom.h"
#include "binade/core/step_stats.h"

namespace binade::amp {

/// One attempt at a step. Trainer::step() returns the last attempt at its batch, with those before it in `earlier`.
struct StepResult : StepStats {
  std::string state_hash_before, state_hash_after;  ///< with TrainerOptions::state_hash
  std::vector<int> left_out;                        ///< micro-batches that did not count
  std::vector<std::int64_t> samples_left_out;       ///< samples of the step's whole batch that did not count
  Headroom forward_headroom, backward_headroom;     ///< the op nearest to overflow, of its results and its gradients;
                                                    ///< on a GPU known in every 4th step (Telemetry::Probes::libraries)
  std::optional<Incident> incident;
  std::vector<std::string> notes;           ///< for people: a remedy that ended
  std::vector<Warning> warnings;            ///< early warnings; of committed attempts only
  std::optional<double> attention_logits;   ///< largest product of queries and keys, where it is an op; every 4th step
  std::optional<double> attention_entropy;  ///< of the attention that spreads least, a share; every 4th step
  std::optional<double> update_rms;         ///< root mean square of the update; every 50th step
  std::vector<ModuleHeadroom> headroom;     ///< by module, in steps that keep_headroom_every() names
  bool last = false;                        ///< the next attempt is at another batch
  bool in_flight = false;                   ///< submitted, not finished: finished() returns its outcome
  std::vector<StepResult> earlier;          ///< attempts at the same batch before this one, oldest first

  /// Whether the run goes on from an earlier checkpoint.
  bool went_back() const { return incident && incident->remedy.action == RemedyAction::kRollback; }
  /// All that kept an attempt at this batch from being committed, those that a remedy mended included.
  std::vector<const Incident*> incidents() const {
    std::vector<const Incident*> all;
    for (const StepResult& one : earlier)
      if (one.incident) all.push_back(&*one.incident);
    if (incident) all.push_back(&*incident);
    return all;
  }
};

/// The result of a replay from a repro bundle.
struct ReproReplay {
  bool same_bits = false;  ///< loss and gradients are those of the run that wrote it, to the bit
  Incident incident{};
};
using CapsuleReplay [[deprecated("use ReproReplay")]] = ReproReplay;

}  // namespace binade::amp
