#include "binade/run/save_times.h"

#include <algorithm>

namespace binade::amp {

SaveTimes::SaveTimes(const Options& options, double now) : options_(options) {
  if (options_.saved_before)
    save_started(now);
  else if (options_.seconds > 0)
    next_ = now;
}

void SaveTimes::save_started(double now) {
  if (options_.seconds <= 0) {
    next_ = kNever;
    return;
  }
  next_ = now + std::min(interval_, options_.seconds);
  interval_ = std::min(2 * interval_, options_.seconds);
}

void SaveTimes::save_failed(double now) {
  next_ = std::min(next_, now + retry_);
  retry_ = std::min(2 * retry_, kMaxRetry);
}

}  // namespace binade::amp
