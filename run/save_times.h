#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace binade::amp {

/// Decides when a run saves a checkpoint: every `every_steps` steps, and by the clock. By the clock, the first save
/// follows the run's first step, to find out at once if checkpoints can be written; the intervals between saves then
/// double from 15 s up to `seconds`. Therefore a run that dies early loses at most about half of its training time, and
/// a run that dies later loses at most `seconds`. A failed save is retried after 10 s, 20 s, 40 s, …, even without
/// saves by the clock.
///
/// Times are seconds of any steady clock.
class SaveTimes {
 public:
  /// Intervals between saves.
  struct Options {
    std::int64_t every_steps = 0;  ///< 0: no saves by step count
    double seconds = 0;            ///< longest interval between saves; 0: no saves by the clock
    bool saved_before = false;     ///< true if the run has a checkpoint; then no save follows its first step
  };
  SaveTimes(const Options& options, double now) : options_(options) {
    if (options_.saved_before)
      save_started(now);
    else if (options_.seconds > 0)
      next_ = now;
  }

  bool due_at_step(std::int64_t step) const { return options_.every_steps > 0 && step % options_.every_steps == 0; }
  bool due_by_clock(double now) const { return now >= next_; }
  /// Records that a save starts.
  void save_started(double now) {
    next_ = options_.seconds > 0 ? now + std::min(interval_, options_.seconds) : kNever;
    interval_ = std::min(2 * interval_, options_.seconds);
  }
  /// Records that the save failed.
  void save_failed(double now) {
    next_ = std::min(next_, now + retry_);
    retry_ = std::min(2 * retry_, kMaxRetry);
  }
  /// Records that the save was committed.
  void save_committed() { retry_ = kFirstRetry; }

 private:
  static constexpr double kFirstInterval = 15, kFirstRetry = 10, kMaxRetry = 600;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Options options_;
  double interval_ = kFirstInterval, retry_ = kFirstRetry;  // seconds to wait after a save starts, and after one fails
  double next_ = kNever;                                    // time of the next save by the clock, or of a retry
};

}  // namespace binade::amp
