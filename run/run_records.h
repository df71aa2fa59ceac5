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

/// Everything a run writes down beside its checkpoints: metrics.jsonl (a function of the run alone: a resumed run
/// writes the same bytes), timing.jsonl (everything that depends on the clock), events.jsonl (what happened to the run,
/// lives that were cut off included), headroom.jsonl (of sampled steps and of those with an incident), samples/ (what
/// evaluations show), TensorBoard events, and the terminal.
///
/// A log that cannot be written does not end the run: the first failure of each log is reported, later ones are
/// counted, and the log then lacks lines. Only opening a log throws.
class RunRecords {
 public:
  /// What checkpoints had to do with a step's time.
  struct Saving {
    double stall_seconds = 0;              ///< before the step: a state was handed to the writer
    bool beside = false;                   ///< the writer worked while the step was made
    std::vector<io::SaveOutcome> ended{};  ///< since the step before
  };

  /// `scaled`: there is a loss scale worth showing. The folder and the options must outlive this.
  RunRecords(const io::RunFolder& folder, const RunOptions& options, bool scaled);
  ~RunRecords();

  /// The attempts at one step, in order. Aborted attempts and their causes are also shown on the terminal.
  void attempts(std::span<const StepResult> attempts);
  void timing(const StepResult& stats, double seconds, const Saving& saving);
  void evaluation(std::int64_t step, const Evaluation& evaluation);
  /// An incident that does not affect training: shown on the terminal, with a report.
  void warn(const Incident& incident);
  /// Opens the displays; `step` updates were done before. Before the first attempt().
  void begin(std::int64_t step);
  /// What an incident's attempt needs to be run again, beside its report.
  void repro_bundle(std::int64_t step, std::int64_t attempt, StateDict bundle);
  /// A line for the person at the terminal.
  void say(const std::string& line);
  /// Writes an event of the run to events.jsonl. Kinds: begun, resumed, changed, stopped, finished, left, died,
  /// given-up; drill, incident, warning, sign, overflow, remedy, checkpoint, log, environment, memory, library.
  void keep_event(std::string_view kind, std::int64_t step, const std::string& what);
  /// Writes the event and also prints it on the terminal.
  void event(std::string_view kind, std::int64_t step, const std::string& what);
  /// Whether the previous process of this run recorded how it ended.
  bool ended_well() const { return ended_well_; }
  /// Completes the terminal's picture of the run.
  void finish();
  /// Reports which logs lack lines.
  void tell_losses(std::int64_t step);

  /// Waits until metrics.jsonl is on the disk. From any thread.
  void sync() {
    log_later("metrics.jsonl", [this] { metrics_.sync(); });
  }
  /// Runs `write` for the log `name`. If it fails with a StorageError, the next timing() reports the error. From any
  /// thread.
  void log_later(const std::string& name, const std::invocable auto& write) {
    try {
      write();
    } catch (const StorageError& error) {
      const std::scoped_lock lock(mutex_);
      untold_.emplace_back(name, error.what());
    }
  }
  /// Bytes of metrics.jsonl; a checkpoint remembers them, and a resume cuts the file back. If somebody removed lines,
  /// the run goes on with the remaining ones and reports it: a log is no reason to lose a training.
  std::int64_t metrics_bytes() const { return metrics_.offset(); }
  void cut_back_to(std::int64_t bytes, std::int64_t step);

 private:
  struct Displays;
  void log(const std::string& name, const std::function<void()>& write);
  void log_failed(const std::string& name, const std::string& problem);
  void tell_later_failures();
  void scalar(std::string_view tag, std::int64_t step, double value);
  void attempt(const StepResult& attempt);
  void headroom(std::span<const StepResult> attempts);
  void keep_sample(std::int64_t step, const std::string& extension, const std::string& bytes);
  void tell(const Incident& incident, const std::string& report);
  void tell(const Warning& warning);
  void tell_overflows(std::span<const StepResult> attempts);
  /// Returns where it is, for people.
  std::string write_report(const Incident& incident);

  const io::FilesBelow& files_;
  const RunOptions& options_;
  bool scaled_;
  IncidentFolders incidents_;
  io::JsonLines metrics_;
  io::JsonLines timing_;
  io::JsonLines headroom_;
  io::JsonLines events_;
  bool ended_well_;
  std::unique_ptr<Displays> displays_;
  std::map<std::string, std::int64_t> failures_;  // of logs, by name
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> untold_;  // failures in other threads: log and problem
};

}  // namespace binade::amp
