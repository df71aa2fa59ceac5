#pragma once

#include <cstdint>
#include <string_view>

namespace binade::amp {

enum class LossScaleMode : std::uint8_t { kDynamic, kStatic, kOff };

struct LossScaleOptions {
  LossScaleMode mode = LossScaleMode::kDynamic;
  double init_scale = 65536;  ///< kStatic: the scale of all steps. May exceed the ceiling
  bool measure = false;       ///< kDynamic in a Trainer: a backward before step 1 determines the initial scale
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< commits in a row without overflow before the scale grows
  double floor = 1;                     ///< lowest scale; an overflow at it has another cause
  double ceiling = 0x1p24;              ///< highest scale that growth reaches
  std::int64_t aborts_in_a_row = 64;    ///< maximum; one more stops the run
  std::int64_t aborts_per_window =
      5;  ///< maximum in `window` commits, after the first `window`; one more stops the run
  std::int64_t window = 100;

  static LossScaleOptions dynamic(double init_scale = 65536) { return {.init_scale = init_scale}; }
  /// Starts at the largest power of two that leaves kMeasuredHeadroom binades above the largest scaled gradient, and
  /// falls to such a one after an overflow.
  static LossScaleOptions measured() { return {.measure = true}; }
  static LossScaleOptions fixed(double scale) { return {.mode = LossScaleMode::kStatic, .init_scale = scale}; }
  static LossScaleOptions off() { return {.mode = LossScaleMode::kOff, .init_scale = 1}; }
  /// Parses "dynamic", "off" or a number. Throws ArgumentError.
  static LossScaleOptions parse(std::string_view text, double init_scale = 65536);
};

}  // namespace binade::amp
