#pragma once

#include <optional>

#include "binade/cuda/device/context.cuh"

namespace binade::cuda {

/// A device event with a time stamp.
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

/// Returns the seconds that the device needs for the work that run() submits, as the least of three runs after a
/// warm-up. Short work is submitted several times per run, so that the device does not wait for the host in between.
/// Stops after a run that takes more than 1.5 times `best` (the least time of other plans; 0: none yet), and lowers
/// `best` to the result if that is less. Returns std::nullopt if the work is unsupported, or if the device has too
/// little memory. REQUIRES that no thread captures the stream.
template <class Run>
std::optional<double> seconds_of(Run&& run, double& best) try {
  constexpr int kRuns = 3, kRepeats = 8;  // runs that are timed; times that short work is submitted per run
  constexpr double kShort = 200e-6;       // work of fewer seconds is short
  constexpr double kHopeless = 1.5;
  const TimedEvent begin, end;
  double least = 0;
  run();
  int repeats = 1;
  for (int i = 0; i < kRuns; ++i) {
    begin.record();
    for (int k = 0; k < repeats; ++k) run();
    end.record();
    const double seconds = end.seconds_since(begin) / repeats;
    if (i == 0 && seconds < kShort) repeats = kRepeats;
    least = i > 0 && least < seconds ? least : seconds;
    if (best > 0 && seconds > kHopeless * best && (i > 0 || repeats == 1)) break;
  }
  if (best == 0 || least < best) best = least;
  return least;
} catch (const Failure& failure) {
  if (failure.status() == Status::kUnsupported || failure.status() == Status::kNoMemory) return {};
  throw;
}

}  // namespace binade::cuda
