#pragma once

#include <cstdint>
#include <string_view>

namespace binade::amp {

enum class LossScaleMode : std::uint8_t { kDynamic, kStatic, kOff };

struct LossScaleOptions {
  LossScaleMode mode = LossScaleMode::kDynamic;
  double init_scale = 65536;  ///< kStatic: the scale for good. May lie above the ceiling
  bool measure = false;       ///< kDynamic in a Trainer: one backward before step 1 finds the scale to begin with
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< clean commits in a row before the scale grows
  double floor = 1;                     ///< an overflow here is not explained by the scale any more
  double ceiling = 0x1p24;              ///< growth stops here
  std::int64_t aborts_in_a_row = 64;    ///< more than these stop the run
  std::int64_t aborts_per_window = 5;   ///< more than these in any `window` commits after the first `window` stop it
  std::int64_t window = 100;

  static LossScaleOptions dynamic(double init_scale = 65536) { return {.init_scale = init_scale}; }
  /// Begins with the largest power of two that leaves kMeasuredHeadroom binades to the largest scaled gradient, and
  /// goes down to such a one after an overflow.
  static LossScaleOptions measured() { return {.measure = true}; }
  static LossScaleOptions fixed(double scale) { return {.mode = LossScaleMode::kStatic, .init_scale = scale}; }
  static LossScaleOptions off() { return {.mode = LossScaleMode::kOff, .init_scale = 1}; }
  /// "dynamic", "off" or a number. Throws ArgumentError.
  static LossScaleOptions parse(std::string_view text, double init_scale = 65536);
};

}  // namespace binade::amp
