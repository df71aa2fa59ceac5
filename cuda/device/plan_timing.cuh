#pragma once

#include <optional>

#include "binade/cuda/device/context.cuh"

namespace binade::cuda {

/// An event of the device's that keeps the time.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&event_), "an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record() const { check(cudaEventRecord(event_, context().stream), "an event"); }
  double seconds_since(const TimedEvent& begin) const {
    float milliseconds = 0;
    check(cudaEventSynchronize(event_), "an event");
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "an event");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Seconds that the device needs for what run() sends: the least of three runs after one that is not counted; of one
/// where that is half as slow again as `best` (0: nothing to compare with). Nothing where it does not run or finds no
/// memory. REQUIRES that nothing is captured.
template <class Run>
std::optional<double> seconds_of(Run&& run, double best) try {
  constexpr int kRuns = 3;
  constexpr double kHopeless = 1.5;
  const TimedEvent begin, end;
  double least = 0;
  run();
  for (int i = 0; i < kRuns; ++i) {
    begin.record();
    run();
    end.record();
    const double seconds = end.seconds_since(begin);
    least = i > 0 && least < seconds ? least : seconds;
    if (best > 0 && seconds > kHopeless * best) break;
  }
  return least;
} catch (const Failure& failure) {
  if (failure.status() == Status::kUnsupported || failure.status() == Status::kNoMemory) return {};
  throw;
}

}  // namespace binade::cuda
