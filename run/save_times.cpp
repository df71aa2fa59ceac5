#include "binade/run/save_times.h"

#include <algorithm>

namespace binade::amp {

SaveTimes::SaveTimes(const Options& options, double now) : options_(options) {
  if (options_.saved_before)
    began(now);
  else if (options_.seconds > 0)
    next_ = now;
}

void SaveTimes::began(double now) {
  if (options_.seconds <= 0) {
    next_ = kNever;
    return;
  }
  next_ = now + std::min(pause_, options_.seconds);
  pause_ = std::min(2 * pause_, options_.seconds);
}

void SaveTimes::failed(double now) {
  next_ = std::min(next_, now + retry_);
  retry_ = std::min(2 * retry_, kLongestRetry);
}

}  // namespace binade::amp
