#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/dtype.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// How far one place of the tape is from a limit in one step: from overflow, from a singularity, from collapse.
struct HeadroomReading {
  std::string_view module{};
  std::string_view op{};
  DType dtype = DType::f32;  ///< of the value that comes near
  double binades = 0;        ///< not finite: nothing is known of this step
};

/// Foresees overflow, and whatever else is a distance that is used up: for each place of the tape the trend of its
/// headroom over the latest 128 steps, and an alarm when it will be used up soon. Headroom is a logarithm, so that a
/// magnitude that grows by the same share each step is a straight line.
///
/// An alarm wants a trend that is steady (both halves and the newest quarter of the window agree), a crossing within
/// `horizon` steps with `confidence`, and headroom that is small already: a network that finds its scale in its first
/// steps grows fast with much room left. One alarm per place, until its headroom has recovered. Readings that are not
/// finite are ignored.
class Forecast {
 public:
  struct Options {
    std::int64_t every = 4;     ///< steps from sample to sample
    double horizon = 200;       ///< steps ahead
    double worth = 8;           ///< binades: with more left an alarm can wait
    double confidence = 0.9;    ///< that the crossing lies within the horizon, from the spread of the trend
    double agreement = 0.5;     ///< share of the steepest part's slope that the flattest part of the window has
    double slope_error = 0.15;  ///< share of the slope that is doubted besides: no trend is a straight line
    double recovered = 2;       ///< binades regained since the alarm: it may be given again
  };
  static constexpr int kWindow = 32;  ///< samples
  static constexpr int kLeast = 30;   ///< finite ones that a judgement wants

  struct Alarm {
    std::size_t place = 0;  ///< index of the reading
    double binades = 0;     ///< headroom left, on the trend
    double per_step = 0;    ///< binades lost each step
    double steps = 0;       ///< until none is left
    double confidence = 0;  ///< that this happens within the horizon
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit Forecast(const Options& options);
  Forecast() : Forecast(Options{}) {}

  const Options& options() const { return options_; }
  /// Whether observe() wants the readings of this step.
  bool due(std::int64_t step) const { return step % options_.every == 0; }
  /// The readings of a committed step, the same places in the same order each time. A place that is another one than
  /// before (module, op or dtype) starts over.
  std::vector<Alarm> observe(std::int64_t step, std::span<const HeadroomReading> readings);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  struct Place {
    std::string module{}, op{};
    DType dtype = DType::f32;
    double alarmed_at = -1;  // headroom at the alarm; below 0: none is in force
    bool is(const HeadroomReading& reading) const;
  };
  float& sample(std::size_t place, std::size_t column) { return samples_[place * kWindow + column]; }
  float sample(std::size_t place, std::size_t column) const { return samples_[place * kWindow + column]; }
  void enter(std::size_t index, const HeadroomReading& reading, std::size_t column);
  void forget(std::size_t index);
  bool judge(std::size_t index, Alarm& alarm);

  Options options_;
  std::vector<std::int64_t> steps_;  // of the samples in each column of the ring
  std::int64_t count_ = 0;           // samples taken
  std::vector<Place> places_;
  std::vector<float> samples_;  // places x kWindow; NaN: none
};

}  // namespace binade::amp
