#include "binade/amp/warnings/forecast.h"

#include <cmath>
#include <limits>

#include "binade/amp/text.h"
#include "binade/amp/warnings/trend.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr float kNoSample = std::numeric_limits<float>::quiet_NaN();

/// The cumulative distribution function of the standard normal distribution.
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

Forecast::Forecast(const Options& options) : options_(options), steps_(kWindow, 0) {
  check<ArgumentError>(options.every >= 1 && options.horizon > 0 && options.max_headroom > 0 &&
                           options.confidence > 0 && options.confidence < 1 && options.agreement > 0 &&
                           options.agreement <= 1 && options.slope_error > 0 && options.recovered > 0,
                       "forecast: wanted every >= 1, agreement in (0, 1], confidence in (0, 1) and the rest above 0");
}

std::vector<Forecast::Alarm> Forecast::observe(std::int64_t step, std::span<const HeadroomReading> readings) {
  const auto column = static_cast<std::size_t>(count_++ % kWindow);
  steps_[column] = step;
  if (series_.size() < readings.size()) {
    series_.resize(readings.size());
    samples_.resize(readings.size() * kWindow, kNoSample);
  }
  std::vector<Alarm> alarms;
  for (std::size_t i = 0; i < series_.size(); ++i) {
    if (i < readings.size())
      store(i, readings[i], column);
    else
      sample(i, column) = kNoSample;
    Alarm alarm{.reading = i};
    if (raise_alarm(i, alarm)) alarms.push_back(alarm);
  }
  return alarms;
}

void Forecast::store(std::size_t index, const HeadroomReading& reading, std::size_t column) {
  Series& series = series_[index];
  if (!std::isfinite(reading.binades)) {
    sample(index, column) = kNoSample;
    return;
  }
  if (series.module != reading.module || series.op != reading.op || series.dtype != reading.dtype) {
    series = {std::string(reading.module), std::string(reading.op), reading.dtype};
    clear(index);
  }
  sample(index, column) = static_cast<float>(reading.binades);
}

void Forecast::clear(std::size_t index) {
  for (std::size_t column = 0; column < kWindow; ++column) sample(index, column) = kNoSample;
}

/// Returns true and fills `alarm` if the series with this index raises an alarm.
bool Forecast::raise_alarm(std::size_t index, Alarm& alarm) {
  Series& series = series_[index];
  const auto newest = static_cast<std::size_t>((count_ - 1) % kWindow);
  const float now = sample(index, newest);
  if (series.alarmed_at >= 0 && now >= series.alarmed_at + options_.recovered) {
    series.alarmed_at = -1;
    clear(index);
    sample(index, newest) = now;
  }
  // Most series return here, because they are far from their limit.
  if (series.alarmed_at >= 0 || !(now <= 2 * options_.max_headroom)) return false;

  std::vector<Sample> samples;
  for (std::size_t c = 1; c <= kWindow; ++c) {
    const std::size_t column = (newest + c) % kWindow;  // oldest first
    if (const float value = sample(index, column); std::isfinite(value))
      samples.push_back({static_cast<double>(steps_[column]), value});
  }
  if (samples.size() < kMinReadings) return false;
  const std::optional<Trend> trend = trend_of(samples);
  const auto [steepest, flattest] = std::minmax({trend->first_half, trend->second_half, trend->last_quarter});
  const bool steady = flattest < 0 && flattest <= options_.agreement * steepest;
  if (!(trend->level <= options_.max_headroom && steady)) return false;

  alarm.binades = std::max(trend->level, 0.0);
  alarm.per_step = std::min(-trend->slope,
                            -trend->second_half);  // the slower of both, because the trend may be flattening
  alarm.steps = alarm.binades / alarm.per_step;
  const double error = std::hypot(trend->slope_error, options_.slope_error * alarm.per_step);
  alarm.confidence = normal_cdf((alarm.per_step - alarm.binades / options_.horizon) / error);
  if (!(alarm.confidence >= options_.confidence)) return false;
  series.alarmed_at = alarm.binades;
  return true;
}

// ---- state ------------------------------------------------------------------------------------------------------

StateDict Forecast::state() const {
  StateDict state;
  std::string names;
  StateDict::Integers dtypes;
  StateDict::Numbers alarmed;
  for (const Series& series : series_) {
    add_line(names, series.module);
    add_line(names, series.op);
    dtypes.push_back(static_cast<std::int64_t>(series.dtype));
    alarmed.push_back(series.alarmed_at);
  }
  state.put("count", count_);
  state.put("steps", steps_);
  state.put("places", names);
  state.put("dtypes", dtypes);
  state.put("alarmed", alarmed);
  // Checkpoints store 999 for "no reading": a finite headroom is at most 276 binades.
  StateDict::Numbers samples(samples_.begin(), samples_.end());
  for (double& x : samples) x = std::isfinite(x) ? x : 999;
  state.put("samples", samples);
  return state;
}

void Forecast::load_state(const StateDict& state) {
  Forecast loaded(options_);
  if (state.empty()) return void(*this = loaded);
  const StateDict::Integers& dtypes = state.integers("dtypes");
  const StateDict::Numbers &alarmed = state.numbers("alarmed"), &samples = state.numbers("samples");
  const std::vector<std::string> names = split_lines(state.text("places"));
  loaded.count_ = read_count(state, "count");
  loaded.steps_ = read_counts(state, "steps");
  check<CheckpointError>(loaded.steps_.size() == kWindow && alarmed.size() == dtypes.size() &&
                             samples.size() == kWindow * dtypes.size() && names.size() == 2 * dtypes.size(),
                         "forecast: the checkpoint holds {} places, {} samples and {} steps; they do not fit together",
                         dtypes.size(), samples.size(), loaded.steps_.size());
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    loaded.series_.push_back({names[2 * i], names[2 * i + 1], static_cast<DType>(dtypes[i]), alarmed[i]});
  for (const double x : samples) loaded.samples_.push_back(x < 999 ? static_cast<float>(x) : kNoSample);
  *this = loaded;
}

}  // namespace binade::amp
