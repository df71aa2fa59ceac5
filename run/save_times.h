#pragma once

#include <cstdint>
#include <limits>

namespace binade::amp {

/// Decides when a run saves: every `every_steps` steps if that is set, and by the clock. By the clock, the first save
/// follows the run's first step, which shows at once whether checkpoints can be written there; the intervals between
/// saves then double from 15 s up to `seconds`. A run that dies early thus loses at most about half of its time; later
/// it loses at most `seconds`. A failed save is tried again after 10 s, then 20 s, …, even if saves by the clock are
/// off.
///
/// Times are seconds of any steady clock.
class SaveTimes {
 public:
  struct Options {
    std::int64_t every_steps = 0;  ///< 0: steps are not counted
    double seconds = 0;            ///< longest pause between two saves; 0: no saves by the clock
    bool saved_before = false;     ///< the run has a checkpoint already: no save follows the first step
  };
  SaveTimes(const Options& options, double now);

  bool due_at_step(std::int64_t step) const { return options_.every_steps > 0 && step % options_.every_steps == 0; }
  bool due_by_clock(double now) const { return now >= next_; }
  /// Call when a save starts, for whatever reason.
  void began(double now);
  /// Call when that save failed.
  void failed(double now);
  /// Call when that save was committed.
  void committed() { retry_ = kFirstRetry; }

 private:
  static constexpr double kFirstPause = 15, kFirstRetry = 10, kLongestRetry = 600;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Options options_;
  double pause_ = kFirstPause, retry_ = kFirstRetry;
  double next_ = kNever;
};

}  // namespace binade::amp
