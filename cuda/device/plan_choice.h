#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Which of several plans that compute the same is taken: the first, or the fastest, which is then taken on this
/// machine for ever. No library's header.
namespace binade::cuda {

struct PlanSettings {
  bool timed = false;      ///< else the first that a library names
  bool any_order = false;  ///< plans may add in another order every time
  std::string file;        ///< where this machine's choices are kept; without one none is made by time
  double seconds = 0;      ///< that this process may spend on times

  static constexpr double kOfOneKey = 0.5;  ///< seconds, of those
};

/// A text file of plan lines ("KEY = ..." or "KEY algorithm=...") that several processes add to, each while it holds
/// the file alone. The last line of a key counts; what is no such line is passed by and counted.
class PlanStore {
 public:
  explicit PlanStore(const std::string& path) : path_(path) {}
  ~PlanStore();
  PlanStore(const PlanStore&) = delete;
  PlanStore& operator=(const PlanStore&) = delete;

  /// Holds the file and reads what others have added. False where that cannot be: why() says it.
  bool lock();
  void unlock();
  const std::string& why() const { return why_; }
  /// While it is held.
  std::optional<std::string> line_of(const std::string& key) const;
  bool add(const std::string& line);
  int damaged() const { return damaged_; }

  /// What names the key of a plan line; empty for what is none.
  static std::string key_of(const std::string& line);

 private:
  bool fail(const std::string& what);
  bool read_appended();

  std::string path_, why_;
  int file_ = -1;
  std::size_t read_ = 0;
  bool torn_ = false;  // the file ends within a line
  int damaged_ = 0;
  std::map<std::string, std::string> lines_;
};

/// The settings of this process and what it has spent. Used under the lock of those who run calls.
class PlanChooser {
 public:
  /// Tells a person.
  using Report = void (*)(const std::string& line);

  explicit PlanChooser(Report report) : report_(report) {}
  /// What was chosen before stays.
  void configure(const PlanSettings& settings);
  const PlanSettings& settings() const { return settings_; }

  /// The choice for one key. While it lives, no other process makes one.
  class Selection {
   public:
    Selection(PlanChooser& chooser, const std::string& key);
    ~Selection();
    Selection(const Selection&) = delete;
    Selection& operator=(const Selection&) = delete;
    /// This machine's line for the key, if it has one.
    std::optional<std::string> line() const;
    /// The position of the fastest of `count` by time(i), the seconds of a run, or nothing where it does not run. Of
    /// times within 2 % of the least the first counts. Where plans are not timed, or no time is left, the first that
    /// runs(i). Nothing where none does.
    template <class Time, class Runs>
    std::optional<std::size_t> fastest(std::size_t count, Time&& time, Runs&& runs);
    /// Keeps the choice, if it was made here and choices are kept.
    void keep(const std::string& line);

   private:
    bool may_go_on() const;
    static std::optional<std::size_t> least(const std::vector<std::optional<double>>& times);

    PlanChooser& chooser_;
    std::string key_;
    bool held_ = false;
    std::chrono::steady_clock::time_point begun_;
  };

 private:
  void report_once(const std::string& line);

  Report report_;
  PlanSettings settings_;
  std::optional<PlanStore> store_;
  double spent_ = 0;
  std::vector<std::string> reported_;
};

template <class Time, class Runs>
std::optional<std::size_t> PlanChooser::Selection::fastest(std::size_t count, Time&& time, Runs&& runs) {
  if (held_ && count > 1 && may_go_on()) {
    chooser_.report_once("plans of libraries are timed once on this machine and kept in " + chooser_.settings_.file);
    std::vector<std::optional<double>> times;
    while (times.size() < count && (times.empty() || may_go_on())) times.push_back(time(times.size()));
    if (const std::optional<std::size_t> found = least(times)) return found;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (runs(i)) return i;
  return {};
}

}  // namespace binade::cuda
