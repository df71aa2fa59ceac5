#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Selects one of several plans that compute the same result: the first, or the fastest, which is then stored for this
/// machine (docs/decisions/0029). This file includes no header of a library.
namespace binade::cuda {

/// How plans are chosen.
struct PlanSettings {
  bool timed = false;      ///< true: the fastest plan is chosen; false: the first that a library proposes
  bool any_order = false;  ///< plans may add sums in a different order in each run
  std::string file;        ///< path of the file with this machine's choices; empty: plans are not timed
  double seconds = 0;      ///< seconds that this process may spend on timing plans

  static constexpr double kOfOneKey = 0.5;  ///< most seconds for one key
};

/// A text file of plan lines ("KEY = ..." or "KEY algorithm=...") to which several processes append, each while it
/// holds the file's lock. The last line of a key counts. Damaged lines are skipped and counted.
class PlanStore {
 public:
  explicit PlanStore(const std::string& path) : path_(path) {}
  ~PlanStore();
  PlanStore(const PlanStore&) = delete;
  PlanStore& operator=(const PlanStore&) = delete;

  /// Locks the file, and reads the lines that other processes have added. Returns false on failure; why() then returns
  /// the reason.
  bool lock();
  /// Releases the lock and closes the file.
  void unlock();
  /// Returns the reason of the last failure.
  const std::string& why() const { return why_; }
  /// Returns the line of a key, if there is one. REQUIRES the lock, like add() and damaged().
  std::optional<std::string> line_of(const std::string& key) const;
  /// Appends a line. Returns false on failure; why() then returns the reason.
  bool add(const std::string& line);
  /// Returns the number of lines that are no plan lines.
  int damaged() const { return damaged_; }

  /// Returns the key of a plan line; empty if `line` is not a plan line.
  static std::string key_of(const std::string& line);

 private:
  /// Stores `what` and the error of the last system call for why(), and unlocks. Returns false.
  bool fail(const std::string& what);
  /// Reads the lines that were appended since the last call. Returns false on failure.
  bool read_appended();

  std::string path_, why_;
  int file_ = -1;
  std::size_t read_ = 0;  // number of bytes of the file that have been read
  bool torn_ = false;     // the file ends within a line
  int damaged_ = 0;
  std::map<std::string, std::string> lines_;
};

/// Chooses plans by the settings of this process, and counts the time that it has spent. Callers must hold
/// Context::mutex.
class PlanChooser {
 public:
  /// Reports a line to the user.
  using Report = void (*)(const std::string& line);

  explicit PlanChooser(Report report) : report_(report) {}
  /// Sets the settings for later choices; earlier choices stay.
  void configure(const PlanSettings& settings);
  const PlanSettings& settings() const { return settings_; }

  /// The selection of a plan for one key. While such an object exists, no other process selects a plan.
  class Selection {
   public:
    Selection(PlanChooser& chooser, const std::string& key);
    ~Selection();
    Selection(const Selection&) = delete;
    Selection& operator=(const Selection&) = delete;
    /// Returns this machine's line for the key, if it has one.
    std::optional<std::string> line() const;
    /// Returns the index of the fastest of `count` plans: the first within 2 % of the least time. time(i) returns the
    /// seconds of a run of plan i, or std::nullopt if the plan fails. If plans are not timed, or no time is left,
    /// returns the first plan for which runs(i) is true. Returns std::nullopt if there is none.
    template <class MeasureTime, class CanRun>
    std::optional<std::size_t> fastest(std::size_t count, MeasureTime&& time, CanRun&& runs);
    /// Stores the plan line of the choice if a file is used, and counts the time since construction if plans were
    /// timed.
    void keep(const std::string& line);

   private:
    /// Returns true if there is time to measure another plan. Otherwise reports once that the time is used up.
    bool has_time_left() const;
    /// Returns the index of the first time that is within 2 % of the least one.
    static std::optional<std::size_t> least(const std::vector<std::optional<double>>& times);

    PlanChooser& chooser_;
    std::string key_;
    bool locked_ = false;
    std::chrono::steady_clock::time_point begun_;  // when the selection began, after the wait for the lock
    bool has_timed_ = false;
  };

 private:
  /// Reports a line, unless it was reported before.
  void report_once(const std::string& line);

  Report report_;
  PlanSettings settings_;
  std::optional<PlanStore> store_;
  double spent_ = 0;  // seconds spent on timing plans so far
  std::vector<std::string> reported_;
};

template <class MeasureTime, class CanRun>
std::optional<std::size_t> PlanChooser::Selection::fastest(std::size_t count, MeasureTime&& time, CanRun&& runs) {
  if (locked_ && count > 1 && has_time_left()) {
    chooser_.report_once("plans of libraries are timed once on this machine and kept in " + chooser_.settings_.file);
    std::vector<std::optional<double>> times;
    has_timed_ = true;
    while (times.size() < count && (times.empty() || has_time_left())) times.push_back(time(times.size()));
    if (const std::optional<std::size_t> found = least(times)) return found;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (runs(i)) return i;
  return {};
}

}  // namespace binade::cuda
