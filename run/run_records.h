#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/checkpoint/store.h"
#include "binade/io/files/run_folder.h"
#include "binade/io/records/json_lines.h"
#include "binade/run/incident_folders.h"
#include "binade/run/training_run.h"

namespace binade::amp {

/// Writes everything that a run records besides its checkpoints: metrics.jsonl (results of attempts and evaluations; a
/// resumed run writes the same bytes as an uninterrupted one), timing.jsonl (all values that depend on the clock),
/// events.jsonl (the events of the run in all its processes), headroom.jsonl (the headroom in sampled steps and in
/// steps with an incident), samples/ (outputs of evaluations), TensorBoard events, and messages on the terminal.
///
/// A log that cannot be written does not end the run: the first failure of each log is reported, later ones are
/// counted, and the log lacks lines. Only opening a log throws.
class RunRecords {
 public:
  /// The checkpoint activity around a step.
  struct Saving {
    double stall_seconds = 0;              ///< time by which starting a save delayed the step
    bool concurrent = false;               ///< true if a save was in flight during the step
    std::vector<io::SaveOutcome> ended{};  ///< saves that ended since the step before
  };

  /// `scaled`: true if the run uses a loss scale, which the terminal then shows. Folder and options must outlive this
  /// object.
  RunRecords(const io::RunFolder& folder, const RunOptions& options, bool scaled);
  ~RunRecords();

  /// Records the attempts at one step. Shows aborted attempts and their causes on the terminal, too.
  void attempts(std::span<const StepResult> attempts);
  /// Records the duration of a committed step, and shows the step in the progress bar.
  void timing(const StepResult& stats, double seconds, const Saving& saving);
  /// Records the results of an evaluation.
  void evaluation(std::int64_t step, const Evaluation& evaluation);
  /// Reports an incident: on the terminal, in events.jsonl, and in its folder.
  void report(const Incident& incident);
  /// Opens progress bar and TensorBoard events. `step`: number of updates so far. Call it before the first attempts().
  void begin(std::int64_t step);
  /// Writes the repro bundle of an incident.
  void repro_bundle(std::int64_t step, std::int64_t attempt, StateDict bundle);
  /// Prints a line on the terminal.
  void say(const std::string& line);
  /// Writes an event to events.jsonl. Kinds: begun, resumed, changed (a setting, by a resume); the end of a process:
  /// stopped, finished, left (an error ended it), died, given-up (by the supervisor); drill, incident, warning (an
  /// incident in an evaluation), sign (an amp::Warning), overflow, remedy, checkpoint, log (a log cannot be written),
  /// environment, memory, library (work that Binade's own kernels do because a GPU library cannot).
  void log_event(std::string_view kind, std::int64_t step, const std::string& what);
  /// Writes an event and prints it on the terminal.
  void event(std::string_view kind, std::int64_t step, const std::string& what);
  /// Returns true if the previous process of this run recorded its end.
  bool ended_well() const { return ended_well_; }
  /// Completes the progress bar and writes all logs to the disk.
  void finish();
  /// Reports each log that lacks lines, with the number of failed writes.
  void report_incomplete_logs(std::int64_t step);

  /// Waits until metrics.jsonl is on the disk. Thread-safe.
  void sync() {
    log_later("metrics.jsonl", [this] { metrics_.sync(); });
  }
  /// Calls `write` for the log `name`. If it throws a StorageError, the next timing() reports the error. Thread-safe.
  void log_later(const std::string& name, const std::invocable auto& write) {
    try {
      write();
    } catch (const StorageError& error) {
      const std::scoped_lock lock(mutex_);
      unreported_.emplace_back(name, error.what());
    }
  }
  /// Returns the size of metrics.jsonl in bytes, which a checkpoint stores.
  std::int64_t metrics_bytes() const { return metrics_.offset(); }
  /// Truncates metrics.jsonl to the size that a checkpoint stored. If the file is shorter, reports it and continues.
  void truncate_metrics(std::int64_t bytes, std::int64_t step);

 private:
  struct Displays;
  /// Calls `write` for the log `name`, and reports an Error with log_failed().
  void log(const std::string& name, const std::function<void()>& write);
  /// Counts a failure of a log. Reports the first one of each log.
  void log_failed(const std::string& name, const std::string& problem);
  /// Reports the failures that log_later() stored.
  void report_failures_of_threads();
  /// Writes a number for TensorBoard.
  void scalar(std::string_view tag, std::int64_t step, double value);
  /// Writes a line of metrics.jsonl.
  void attempt(const StepResult& attempt);
  /// Writes a line of headroom.jsonl if headroom was measured or an incident occurred.
  void headroom(std::span<const StepResult> attempts);
  /// Writes a file in samples/.
  void keep_sample(std::int64_t step, const std::string& extension, const std::string& bytes);
  /// Logs a warning, and prints it on the terminal.
  void report(const Warning& warning);
  /// Logs and prints that the loss scale was lowered.
  void report_overflows(std::span<const StepResult> attempts);
  /// Returns a message with the path of the report.
  std::string write_report(const Incident& incident);

  const io::FilesBelow& files_;
  const RunOptions& options_;
  bool scaled_;  // true if the run uses a loss scale
  IncidentFolders incidents_;
  io::JsonLines metrics_;
  io::JsonLines timing_;
  io::JsonLines headroom_;
  io::JsonLines events_;
  bool ended_well_;
  std::unique_ptr<Displays> displays_;            // the progress bar and the TensorBoard file
  std::map<std::string, std::int64_t> failures_;  // number of failed writes for each log
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> unreported_;  // failures in other threads: log and message
};

}  // namespace binade::amp
