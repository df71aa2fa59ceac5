#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/watch/telemetry.h"
#include "binade/core/error.h"
#include "binade/doctor/report/series.h"
#include "binade/io/checkpoint/manifest.h"

namespace binade::doctor::report {

/// One attempt of a step, from a line of metrics.jsonl. A missing number is NaN.
struct Attempt {
  std::int64_t step = 0;
  std::int64_t number = 1;
  bool committed = false;
  double loss = 0, grad_norm = 0, loss_scale = 0, lr = 0;
};

/// The headroom of all modules at one step, from a line of headroom.jsonl.
struct HeadroomLine {
  std::int64_t step = 0;
  bool incident = false;
  std::vector<amp::ModuleHeadroom> modules{};
};

/// One event of the run, from a line of events.jsonl.
struct EventRecord {
  std::int64_t step = 0;
  std::string kind{}, what{}, time{};
};

/// The contents of incidents/NAME/report.json.
struct IncidentRecord {
  std::string name{};
  std::int64_t step = 0, attempt = 1;
  bool drill = false;
  std::string what{}, cause{}, confidence{}, advice{};
  std::string op{}, module{}, direction{}, tensor{}, dtype{}, value{}, index{};  ///< location of the first bad value
  std::optional<std::int64_t> sample{}, sample_id{};
  std::vector<double> operand_max{};
  std::vector<std::pair<std::string, bool>> proof{};  ///< variant of the replay; true if all results were finite
  std::string action{}, target{}, done{};             ///< the remedy
  std::int64_t until_step = 0, steps_lost = 0;
  double throughput_ratio = 0, memory_ratio = 0;  ///< NaN if missing
  std::optional<bool> verified{};
  std::int64_t replays = 0;
  std::optional<bool> reproducible{};
  std::string markdown{};  ///< content of report.md; empty if report.json could be read
};

/// A sample of an evaluation, from samples/STEP.txt or samples/STEP.png.
struct Sample {
  std::int64_t step = 0;
  std::string text{};
  std::string png{};                   ///< bytes of a PNG file; a picture too large for a page is scaled down
  std::int64_t width = 0, height = 0;  ///< size of the picture in pixels
};

/// The contents of a run folder. A missing or damaged file leaves its members empty and adds a line to `problems`.
struct RunHistory {
  std::string folder{};
  std::string program{};
  bool running = false;              ///< true if a process has locked the folder
  std::int64_t wanted_steps = 0;     ///< number of steps after which the run is finished; 0: unknown
  std::vector<Attempt> committed{};  ///< ascending by step; without the steps that a rollback undid
  std::vector<Attempt> aborted{};    ///< in the order of the log
  bool ended_aborted = false;        ///< true if the last attempt was not committed
  std::vector<std::pair<std::string, Series>> evaluations{};  ///< names of metrics and their values
  Series milliseconds{}, rate{};                              ///< duration of each step, and units per second
  std::string unit{};                                         ///< unit of `rate`
  double peak_memory_mib = 0;
  std::string began{}, ended{};          ///< times in the first and the last line of timing.jsonl
  std::vector<HeadroomLine> headroom{};  ///< ascending by step
  std::vector<EventRecord> events{};
  std::vector<IncidentRecord> incidents{};
  std::vector<Sample> samples{};  ///< some texts, then some pictures, with the first and the last of each kind
  io::Manifest checkpoints{};
  std::vector<std::pair<std::string, std::string>> settings{}, environment{};
  std::vector<std::string> problems{};

  std::int64_t last_step() const { return committed.empty() ? 0 : committed.back().step; }
  /// Returns the latest incident of a step, or null.
  const IncidentRecord* incident_at(std::int64_t step) const;
  /// Returns the incident that ended the run, or null.
  const IncidentRecord* fatal_incident() const;
};

/// Reads a run folder. Throws ArgumentError if `folder` holds no run, but not for damaged files.
RunHistory read_history(const std::string& folder);

/// Returns the mean training loss of the last steps, which varies less than a single loss. There must be a committed
/// step.
double recent_loss(const RunHistory& history);

/// Returns the values of an evaluation's metric, or null if there are none.
const Series* evaluation_of(const RunHistory& history, const std::string& name);

/// Returns the point with the lowest value of a nonempty series.
Point lowest(const Series& series);

/// The least forward headroom of a module, over steps without an incident.
struct LeastHeadroom {
  double binades = std::numeric_limits<double>::infinity();
  std::string module{};
  std::int64_t step = 0;
};
/// Returns the least headroom of every module, smallest first.
std::vector<LeastHeadroom> least_forward_headroom(const RunHistory& history);

namespace detail {

/// The parts of read_history(). Each reads the files of one kind.
void read_logs(RunHistory& history);
void read_incidents(RunHistory& history);
void read_config(RunHistory& history);
void read_samples(RunHistory& history);

/// Returns the result of `read`; on an Error adds a line to `problems` and returns std::nullopt.
template <class F>
auto or_problem(RunHistory& history, F&& read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& problem) {
    history.problems.push_back(problem.what());
    return std::nullopt;
  }
}

/// Returns the text of a file; std::nullopt if it does not exist or cannot be read. In the latter case, adds a line to
/// `problems`. `limit`: maximum size in bytes.
std::optional<std::string> file_text(RunHistory& history, const std::string& name, std::uint64_t limit);

}  // namespace detail

}  // namespace binade::doctor::report
