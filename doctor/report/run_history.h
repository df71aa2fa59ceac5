#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/watch/telemetry.h"
#include "binade/doctor/report/series.h"
#include "binade/io/checkpoint/manifest.h"

namespace binade::doctor::report {

/// One line of metrics.jsonl about an attempt at a step. NaN: not said.
struct Attempt {
  std::int64_t step = 0;
  std::int64_t number = 1;
  bool committed = false;
  double loss = 0, grad_norm = 0, loss_scale = 0, lr = 0;
};

/// One line of headroom.jsonl.
struct HeadroomLine {
  std::int64_t step = 0;
  bool incident = false;
  std::vector<amp::ModuleHeadroom> modules{};
};

/// One line of events.jsonl.
struct EventRecord {
  std::int64_t step = 0;
  std::string kind{}, what{}, time{};
};

/// incidents/NAME/report.json, as far as it can be read.
struct IncidentRecord {
  std::string name{};
  std::int64_t step = 0, attempt = 1;
  bool drill = false;
  std::string what{}, cause{}, confidence{}, advice{};
  std::string op{}, module{}, direction{}, tensor{}, dtype{}, value{}, index{};  ///< of the first bad place
  std::optional<std::int64_t> sample{}, sample_id{};
  std::vector<double> operand_max{};
  std::vector<std::pair<std::string, bool>> proof{};  ///< replay, whether it was finite
  std::string action{}, target{}, done{};             ///< the remedy
  std::int64_t until_step = 0, steps_lost = 0;
  double throughput_ratio = 0, memory_ratio = 0;  ///< NaN: not said
  std::optional<bool> verified{};
  std::int64_t replays = 0;
  std::optional<bool> reproducible{};
  std::string markdown{};  ///< report.md, if report.json cannot be read
};

/// What an evaluation showed: samples/STEP.txt or .png.
struct Sample {
  std::int64_t step = 0;
  std::string text{};
  std::string png{};                   ///< the file's bytes; a picture too large for a page is scaled down first
  std::int64_t width = 0, height = 0;  ///< of the picture
};

/// Everything that a run folder tells. A file that is missing or damaged leaves its part empty and a line in
/// `troubles`.
struct RunHistory {
  std::string folder{};
  std::string program{};
  bool running = false;              ///< a process holds the folder
  std::int64_t wanted_steps = 0;     ///< 0: not known
  std::vector<Attempt> committed{};  ///< ascending by step; without the steps that a rollback undid
  std::vector<Attempt> aborted{};
  bool ended_aborted = false;                                 ///< the last attempt was not committed
  std::vector<std::pair<std::string, Series>> evaluations{};  ///< by the name of the number
  Series milliseconds{}, rate{};                              ///< of each step
  std::string unit{};                                         ///< what `rate` counts
  double peak_memory_mib = 0;
  std::string began{}, ended{};          ///< from timing.jsonl
  std::vector<HeadroomLine> headroom{};  ///< ascending by step
  std::vector<EventRecord> events{};
  std::vector<IncidentRecord> incidents{};
  std::vector<Sample> samples{};  ///< a few of each kind, the first and the last among them; texts first
  io::Manifest checkpoints{};
  std::vector<std::pair<std::string, std::string>> settings{}, environment{};
  std::vector<std::string> troubles{};

  std::int64_t last_step() const { return committed.empty() ? 0 : committed.back().step; }
  /// The latest incident of a step; null where there is none.
  const IncidentRecord* incident_at(std::int64_t step) const;
  /// The incident that the run ended with; null where it did not.
  const IncidentRecord* fatal_incident() const;
};

/// Reads a run folder. Throws ArgumentError when there is none at `folder`; nothing in it makes this throw.
RunHistory read_history(const std::string& folder);

namespace detail {

/// One part each of read_history().
void read_logs(RunHistory& history);
void read_incidents(RunHistory& history);
void read_config(RunHistory& history);
void read_samples(RunHistory& history);

/// The text of a file, or nothing and a line in `troubles`; nothing alone when there is no such file.
std::optional<std::string> file_text(RunHistory& history, const std::string& name, std::uint64_t limit);

}  // namespace detail

}  // namespace binade::doctor::report
