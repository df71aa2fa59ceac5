#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/incident/incident.h"
#include "binade/amp/warnings/warning.h"
#include "binade/amp/watch/headroom.h"
#include "binade/core/step_stats.h"

namespace binade::amp {

/// A named number of a committed step, for the logs of a run.
struct StepMetric {
  const char* tag = "";          ///< name in TensorBoard: "train/lr"
  const char* member = nullptr;  ///< name in metrics.jsonl and on the terminal; null: in neither
  double value = 0;
};

/// One attempt at a step. Trainer::step() returns the last attempt at its batch, with those before it in `earlier`.
struct StepResult : StepStats {
  std::string state_hash_before, state_hash_after;  ///< with TrainerOptions::state_hash
  std::vector<int> left_out;                        ///< micro-batches that did not count
  std::vector<std::int64_t> samples_left_out;       ///< samples of the step's whole batch that did not count
  Headroom forward_headroom, backward_headroom;     ///< the op nearest to overflow, of its results and its gradients;
                                                    ///< on a GPU known in every 4th step (Telemetry::Probes::libraries)
  std::optional<Incident> incident;
  std::vector<std::string> notes;        ///< for people: a remedy that ended
  std::vector<Warning> warnings;         ///< early warnings; of committed attempts only
  std::vector<StepMetric> metrics;       ///< of committed attempts only (amp/step/metrics.cpp)
  std::vector<ModuleHeadroom> headroom;  ///< by module, in steps that keep_headroom_every() names
  bool last = false;                     ///< the next attempt is at another batch
  bool in_flight = false;                ///< submitted, not finished: finished() returns its outcome
  std::vector<StepResult> earlier;       ///< attempts at the same batch before this one, oldest first

  /// The metric with this tag; std::nullopt if the step did not measure it.
  std::optional<double> metric(std::string_view tag) const {
    for (const StepMetric& m : metrics)
      if (m.tag == tag) return m.value;
    return std::nullopt;
  }
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
