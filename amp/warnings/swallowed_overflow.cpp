#include "binade/amp/warnings/swallowed_overflow.h"

#include <algorithm>
#include <bit>

#include "binade/amp/state_rows.h"
#include "binade/amp/suggestions.h"
#include "binade/amp/text.h"
#include "binade/amp/watch/swallowed_infinity.h"

namespace binade::amp {
namespace {

using OpRecord = Telemetry::OpRecord;

/// Returns "results up to 6.1e+05, which f16 stores as infinity".
std::string stored_by(const OpRecord& record) {
  const std::uint32_t word = std::max(record.amax.low, record.amax.wide);
  if (record.amax.wide < overflow_word(DType::f32) && word < overflow_word(DType::f32))
    return fmt::format("results up to {:.2g}, which {} stores as infinity", std::bit_cast<float>(record.amax.low),
                       name_of(record.half_dtype));
  return word > overflow_word(DType::f32) ? "NaNs" : "infinities";
}

Warning warning_of(const OpRecord& origin, const OpRecord& swallower, std::int64_t step) {
  const bool rounded = overflowed({.low = origin.amax.low}, origin.half_dtype);
  Warning warning{.kind = WarningKind::kSwallowedOverflow,
                  .step = step,
                  .module = origin.module,
                  .op = origin.op,
                  .direction = "forward",
                  .dtype = std::string(name_of(rounded ? origin.half_dtype : DType::f32))};
  warning.what = fmt::format(
      "has {} in steps that commit: {} makes finite numbers of them, so that the loss shows nothing", stored_by(origin),
      quoted_op(swallower.op, swallower.module));
  warning.advice = rounded && origin.half_dtype == DType::f16
                       ? fmt::format("compute it in f32 ({}), or scale its operands down",
                                     suggest_dtype(target_of(warning), DType::f32))
                       : "keep its operands away from 0 or infinity: add an eps, clamp them, or scale them down";
  return warning;
}

}  // namespace

void SwallowedOverflow::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  const std::span<const OpRecord> forward = step.telemetry.records(Direction::kForward);
  for (const SwallowedInfinity& one : find_swallowed_infinities(forward)) {
    const OpRecord& origin = forward[one.origin];
    const std::string target = override_target(origin.op, origin.module);
    auto place = std::ranges::find(places_, target, &Place::target);
    if (place == places_.end()) place = places_.insert(place, {.target = target});
    if (place->last == step.step) continue;  // another call of the op in this step was counted already
    place->last = step.step;
    place->checks = std::min(place->checks + 1, kChecks + 1);
    if (place->checks == kChecks) found.push_back(warning_of(origin, forward[one.swallower], step.step));
  }
}

StateDict SwallowedOverflow::state() const {
  StateDict state;
  put_rows<Place>(state, places_, {"targets", &Place::target}, {{"checks", &Place::checks}});
  return state;
}

void SwallowedOverflow::load_state(const StateDict& state) {
  places_ = read_rows<Place>(state, "swallowed overflow", {"targets", &Place::target}, {{"checks", &Place::checks}});
}

}  // namespace binade::amp
