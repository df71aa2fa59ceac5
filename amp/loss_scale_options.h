#pragma once

#include <cstdint>
#include <string_view>

namespace binade::amp {

/// kDynamic: the scale falls after overflows and grows again. kStatic: the scale is fixed. kOff: the scale is 1.
enum class LossScaleMode : std::uint8_t { kDynamic, kStatic, kOff };

/// Settings of the loss scale.
struct LossScaleOptions {
  LossScaleMode mode = LossScaleMode::kDynamic;
  double init_scale = 65536;  ///< scale of the first step, or of all steps if mode is kStatic; may exceed the ceiling
  bool measure = false;  ///< with kDynamic, in a Trainer: a trial backward before step 1 determines the initial scale
  double growth_factor = 2;             ///< factor on the scale after `growth_interval` commits without an overflow
  double backoff_factor = 0.5;          ///< factor on the scale after an overflow
  std::int64_t growth_interval = 2000;  ///< commits in a row without overflow before the scale grows
  double floor = 1;                     ///< lowest scale; an overflow at this scale has another cause
  double ceiling = 0x1p24;              ///< highest scale that growth reaches
  std::int64_t aborts_in_a_row = 64;    ///< maximum number of overflows without a commit; one more is an incident
  /// Maximum number of overflows within `window` commits, counted after the first `window`; one more is an incident
  std::int64_t aborts_per_window = 5;
  std::int64_t window = 100;  ///< number of commits to which aborts_per_window refers

  static LossScaleOptions dynamic(double init_scale = 65536) { return {.init_scale = init_scale}; }
  /// Measures the gradients of the first batch and starts at the largest power of two that leaves kMeasuredHeadroom
  /// binades between the largest scaled gradient and overflow. Measures again after an overflow.
  static LossScaleOptions measured() { return {.measure = true}; }
  static LossScaleOptions fixed(double scale) { return {.mode = LossScaleMode::kStatic, .init_scale = scale}; }
  static LossScaleOptions off() { return {.mode = LossScaleMode::kOff, .init_scale = 1}; }
  /// Parses "dynamic", "off" or a number. Throws ArgumentError.
  static LossScaleOptions parse(std::string_view text, double init_scale = 65536);
};

}  // namespace binade::amp
