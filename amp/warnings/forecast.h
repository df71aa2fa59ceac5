#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/dtype.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// The distance of one op call from a limit (overflow, a singularity, attention collapse) in one step.
struct HeadroomReading {
  std::string_view module{};
  std::string_view op{};
  DType dtype = DType::f32;  ///< dtype of the value that is near the limit
  double binades = 0;        ///< headroom of the op call; not finite: unknown in this step
};

/// Predicts the step at which a headroom is used up, from the trend of each op call's readings over the latest 128
/// steps. Headroom is a logarithm, so its trend is a straight line if the magnitude grows by a constant factor per
/// step.
///
/// An alarm requires a steady trend (both halves and the newest quarter of the window agree), a crossing within
/// `horizon` steps with probability `confidence`, and a headroom that is already small, because in the first steps of a
/// run magnitudes grow fast although much headroom is left. After an alarm, an op call gets the next one only after its
/// headroom has recovered. Readings that are not finite are ignored.
class Forecast {
 public:
  /// Options of the forecast.
  struct Options {
    std::int64_t every = 4;   ///< steps between readings
    double horizon = 200;     ///< number of steps ahead for which the headroom is predicted
    double max_headroom = 8;  ///< binades of headroom; there is no alarm while more is left
    double confidence = 0.9;  ///< minimum probability, for an alarm, that the headroom is used up within the horizon
    /// Minimum ratio of the slope in the window's flattest part to the slope in its steepest part
    double agreement = 0.5;
    /// Extra standard error, as a share of the slope, because no trend is exactly a straight line
    double slope_error = 0.15;
    double recovered = 2;  ///< binades that must be regained after an alarm before the next one
  };
  static constexpr int kWindow = 32;       ///< number of readings in the window
  static constexpr int kMinReadings = 30;  ///< number of finite readings that an alarm requires

  /// The prediction that an op call will use up its headroom.
  struct Alarm {
    std::size_t reading = 0;  ///< index of the op call in the readings that observe() took
    double binades = 0;       ///< headroom left, on the trend line
    double per_step = 0;      ///< binades lost per step
    double steps = 0;         ///< number of steps until no headroom is left
    double confidence = 0;    ///< probability that the headroom is used up within the horizon
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit Forecast(const Options& options);
  Forecast() : Forecast(Options{}) {}

  const Options& options() const { return options_; }
  /// True if observe() takes the readings of this step.
  bool due(std::int64_t step) const { return step % options_.every == 0; }
  /// Adds the readings of a committed step and returns the alarms that they raise. Every step must have the same op
  /// calls in the same order, because readings with the same index form a series. If module, op or dtype at an index
  /// change, a new series starts.
  std::vector<Alarm> observe(std::int64_t step, std::span<const HeadroomReading> readings);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  /// The op call that a series of readings belongs to.
  struct Series {
    std::string module{}, op{};
    DType dtype = DType::f32;
    double alarmed_at = -1;  // headroom at the last alarm; negative: none, or recovered since
  };
  float& sample(std::size_t series, std::size_t column) { return samples_[series * kWindow + column]; }
  /// Adds a reading to a series. If the reading is of another op, the series starts anew.
  void store(std::size_t index, const HeadroomReading& reading, std::size_t column);
  /// Discards the samples of a series.
  void clear(std::size_t index);
  bool raise_alarm(std::size_t index, Alarm& alarm);

  Options options_;
  std::vector<std::int64_t> steps_;  // the step of each column of `samples_`
  std::int64_t count_ = 0;           // number of observe() calls
  std::vector<Series> series_;
  std::vector<float> samples_;  // readings: series x kWindow, a ring buffer of columns; NaN: no reading
};

}  // namespace binade::amp
