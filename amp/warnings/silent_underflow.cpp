#include "binade/amp/warnings/silent_underflow.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/warnings/names.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr double kMostRaised = 24, kLeastRaised = 3;  // binades: below it too few zeros come back to tell
constexpr double kLegalMargin = 0.1;                  // what a share of legal zeros may vary by
constexpr double kLost = 0.5;                         // of the gradients that are not legally zero

/// Share of what is not zero at a higher scale that was zero before. 0 where nothing came back.
double lost_share(const Telemetry::Slot& now, const Telemetry::Slot& raised) {
  const double before = now.zero_share(), after = raised.zero_share();
  return after < 1 ? std::max(0.0, (before - after) / (1 - after)) : 0;
}

Warning warning_of(const Telemetry::Slot& slot, Direction direction, std::int64_t step, double scale, double lost,
                   std::size_t others) {
  const bool backward = direction == Direction::kBackward;
  const std::string dtype(name_of(slot.low));
  Warning warning{.kind = WarningKind::kUnderflow, .step = step, .module = slot.module, .op = slot.op};
  warning.direction = backward ? "backward" : "forward";
  warning.dtype = dtype;
  const std::string share = lost >= 1 ? "all" : fmt::format("{:.0f} % of", 100 * lost);
  warning.what = fmt::format("{} {} have vanished for {} steps: too small for {}{}", share,
                             backward ? "its gradients" : "its results",
                             SilentUnderflow::kEvery * (SilentUnderflow::kLooks - 1), dtype,
                             backward ? fmt::format(" at loss scale {}", scale) : "");
  if (others > 0) warning.what += fmt::format("; so have those of {} other op{}", others, others == 1 ? "" : "s");
  const std::string op = slot.module.empty() ? slot.op : slot.module;
  const bool widest = slot.low ==
                      DType::bf16;  // bf16 already has the range of f32, and runs in bf16 leave the loss scale at 1
  warning.advice = fmt::format("compute in {} here (--override '{}=fp32')", widest ? "fp32" : "bf16 or fp32", op);
  if (backward)
    warning.advice = (widest ? "scale the loss by a number (--loss-scale 65536), or "
                             : "raise the loss scale (--loss-scale dynamic), or ") +
                     warning.advice;
  else
    warning.advice += ", or keep its input larger";
  return warning;
}

}  // namespace

std::optional<double> SilentUnderflow::proof_factor(std::int64_t step) const {
  const auto in_doubt = [](const Place& p) { return !p.told && !p.vanished && p.probes >= kLooks - 1; };
  if (!due(step) || std::ranges::none_of(backward_, in_doubt)) return std::nullopt;
  const double binades = std::min(std::floor(headroom_) - 1, kMostRaised);
  return binades >= kLeastRaised ? std::optional(std::exp2(binades)) : std::nullopt;
}

std::vector<SilentUnderflow::Found> SilentUnderflow::look_at(std::vector<Place>& places,
                                                             std::span<const Telemetry::Slot> seen,
                                                             std::span<const Telemetry::Slot> raised, bool settled) {
  std::vector<Found> found;
  places.resize(std::max(places.size(), seen.size()));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Telemetry::Slot& slot = seen[i];
    Place& place = places[i];
    if (slot.op == nullptr) continue;
    if (place.module != slot.module || place.op != slot.op) place = {.module = slot.module, .op = slot.op};
    place.vanished = vanished(slot.seen, slot.low);
    const bool suspect = place.vanished || slot.zero_share() > place.legal;
    place.probes = suspect ? std::min<std::int64_t>(place.probes + 1, kLooks) : 0;
    if (place.told || place.probes < kLooks) continue;
    const double lost = place.vanished ? 1 : settled && i < raised.size() ? lost_share(slot, raised[i]) : 0;
    if (lost > kLost) {
      place.told = true;
      found.push_back({i, lost});
    } else if (settled) {
      place.legal = std::min(slot.zero_share() + kLegalMargin, 1.0);
      place.probes = 0;
    }
  }
  return found;
}

std::optional<Warning> SilentUnderflow::look(std::int64_t step, double loss_scale, const Telemetry& seen,
                                             const Telemetry* raised) {
  const auto slots_of = [&](const Telemetry* t, Direction d) {
    return t != nullptr ? t->slots(d) : std::span<const Telemetry::Slot>{};
  };
  const auto forward = seen.slots(Direction::kForward), backward = seen.slots(Direction::kBackward);
  const std::vector<Found> below = look_at(forward_, forward, {}, false);
  const std::vector<Found> back = look_at(backward_, backward, slots_of(raised, Direction::kBackward),
                                          raised != nullptr);
  const double headroom = seen.least(Direction::kBackward).binades;
  if (!std::isnan(headroom)) headroom_ = std::clamp(headroom, 0.0, 2 * kMostRaised);
  // Where it begins: what comes after only inherits it. Backward runs down the tape.
  if (!below.empty())
    return warning_of(forward[below.front().place], Direction::kForward, step, loss_scale, below.front().lost,
                      below.size() + back.size() - 1);
  if (back.empty()) return std::nullopt;
  return warning_of(backward[back.back().place], Direction::kBackward, step, loss_scale, back.back().lost,
                    back.size() - 1);
}

// ---- state ------------------------------------------------------------------------------------------------------

StateDict SilentUnderflow::state() const {
  StateDict state;
  state.put("headroom", headroom_);
  for (const auto& [name, places] : {std::pair("forward", &forward_), {"backward", &backward_}}) {
    std::string names;
    StateDict::Integers probes, flags;
    StateDict::Numbers legal;
    for (const Place& p : *places) {
      add_line(names, p.module);
      add_line(names, p.op);
      probes.push_back(p.probes);
      flags.push_back((p.vanished ? 1 : 0) + (p.told ? 2 : 0));
      legal.push_back(p.legal);
    }
    StateDict part;
    part.put("places", names);
    part.put("looks", probes);
    part.put("flags", flags);
    part.put("legal", legal);
    state.merge(name, part);
  }
  return state;
}

void SilentUnderflow::load_state(const StateDict& state) {
  SilentUnderflow loaded;
  if (!state.empty()) {
    loaded.headroom_ = state.number("headroom");
    for (const auto& [name, places] : {std::pair("forward", &loaded.forward_), {"backward", &loaded.backward_}}) {
      const StateDict part = state.section(name);
      const std::vector<std::string> names = lines_of(part.text("places"));
      const StateDict::Integers &probes = read_counts(part, "looks"), &flags = read_counts(part, "flags");
      const StateDict::Numbers& legal = part.numbers("legal");
      check<CheckpointError>(names.size() == 2 * probes.size() && flags.size() == probes.size() &&
                                 legal.size() == probes.size(),
                             "silent underflow: the checkpoint's lists of places do not fit together");
      for (std::size_t i = 0; i < probes.size(); ++i)
        places->push_back({.module = names[2 * i],
                           .op = names[2 * i + 1],
                           .probes = probes[i],
                           .vanished = (flags[i] & 1) != 0,
                           .told = (flags[i] & 2) != 0,
                           .legal = legal[i]});
    }
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
