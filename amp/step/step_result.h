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
  std::string tag{};     ///< name in TensorBoard: "train/lr"
  std::string member{};  ///< name in metrics.jsonl and on the terminal; empty: in neither
  double value = 0;
};

/// The results of one phase of a step.
struct PhaseStats {
  std::string name{};  ///< names of the phase's optimizers: "critic"
  double loss = 0;
  double grad_norm = 0;  ///< before clipping
  double lr = 0;
};

/// The result of one attempt at a step. Trainer::step() returns the last attempt at its batch, with the others in
/// `earlier`.
struct StepResult : StepStats {
  std::string state_hash_before, state_hash_after;  ///< set only if TrainerOptions::state_hash is true
  std::vector<PhaseStats> phases;                   ///< empty if the step has a single phase; `loss` is their sum
  std::vector<int> left_out;                        ///< numbers of the micro-batches that were left out
  std::vector<std::int64_t> samples_left_out;       ///< samples of the step's whole batch that were left out
  /// The ops nearest to overflow, by their results and by their gradients. On a GPU set only in every 4th step
  /// (Telemetry::Probes::libraries).
  Headroom forward_headroom, backward_headroom;
  std::optional<Incident> incident;
  std::vector<std::string> notes;        ///< messages for the log, for example about promotions that ended
  std::vector<Warning> warnings;         ///< of committed attempts only
  std::vector<StepMetric> metrics;       ///< of committed attempts only (amp/step/metrics.cpp)
  std::vector<ModuleHeadroom> headroom;  ///< set only in steps that keep_headroom_every() selects
  bool verified = false;            ///< one micro-batch was computed twice, and compared (TrainerOptions::verify_every)
  std::int64_t verified_total = 0;  ///< attempts of the run that were verified
  std::int64_t corrupted_total = 0;  ///< attempts among them whose bits differed
  bool last = false;                 ///< true if the next attempt is at another batch
  /// True: the step is in flight, or its batch waits for the next one (SpikeReview); finished() returns its result.
  bool in_flight = false;
  std::vector<StepResult> earlier;  ///< earlier attempts at the same batch, oldest first

  /// Returns the metric with this tag; std::nullopt if the step did not measure it.
  std::optional<double> metric(std::string_view tag) const {
    for (const StepMetric& m : metrics)
      if (m.tag == tag) return m.value;
    return std::nullopt;
  }
  /// True if the step ended with a rollback to an earlier checkpoint.
  bool rolled_back() const { return incident && incident->remedy.action == RemedyAction::kRollback; }
  [[deprecated("use rolled_back()")]] bool went_back() const { return rolled_back(); }
  /// Returns the incidents of all attempts at this batch.
  std::vector<const Incident*> incidents() const {
    std::vector<const Incident*> all;
    for (const StepResult& one : earlier)
      if (one.incident) all.push_back(&*one.incident);
    if (incident) all.push_back(&*incident);
    return all;
  }
};

/// The tensor memory that a step needs with a micro-batch of `rows` samples. Excludes memory of libraries and threads.
struct MemoryForecast {
  std::int64_t rows = 0;
  double bytes = 0;          ///< peak of the tensor memory, in bytes
  double bytes_per_row = 0;  ///< bytes by which the peak grows per additional row
  bool accumulates = false;  ///< true if a step has several micro-batches

  /// Returns the number of rows that fit into `available` bytes.
  std::int64_t rows_that_fit(double available) const;
};

/// The result of a replay from a repro bundle.
struct ReproReplay {
  bool same_bits = false;  ///< loss and gradients are bit-identical to those of the original run
  Incident incident{};
};
using CapsuleReplay [[deprecated("use ReproReplay")]] = ReproReplay;

}  // namespace binade::amp
