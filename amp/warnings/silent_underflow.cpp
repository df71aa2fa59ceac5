#include "binade/amp/warnings/silent_underflow.h"

#include <cmath>

#include "binade/amp/suggestions.h"
#include "binade/amp/text.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

// Limits of the extra run's loss scale, in binades above the ordinary scale. Below kMinRaised, too few zeros become
// nonzero for a decision.
constexpr double kMaxRaised = 24, kMinRaised = 3;
constexpr double kLegalMargin = 0.1;  // once zeros are legal, their share may grow by this much before it is suspect
constexpr double kMinLost = 0.5;      // an underflow is reported if lost_share() is larger

/// Returns the share of the values that are nonzero at the raised loss scale and 0 at the ordinary scale, among all
/// that are nonzero at the raised scale; 0 if no value became nonzero.
double lost_share(const Telemetry::OpRecord& now, const Telemetry::OpRecord& raised) {
  const double before = now.zero_share(), after = raised.zero_share();
  return after < 1 ? std::max(0.0, (before - after) / (1 - after)) : 0;
}

Warning warning_of(const Telemetry::OpRecord& record, Direction direction, std::int64_t step, double scale, double lost,
                   std::size_t others) {
  const bool backward = direction == Direction::kBackward;
  const std::string dtype(name_of(record.half_dtype));
  Warning warning{.kind = WarningKind::kUnderflow, .step = step, .module = record.module, .op = record.op};
  warning.direction = backward ? "backward" : "forward";
  warning.dtype = dtype;
  const std::string share = lost >= 1 ? "all" : fmt::format("{:.0f} % of", 100 * lost);
  warning.what = fmt::format("{} {} have vanished for {} steps: too small for {}{}", share,
                             backward ? "its gradients" : "its results",
                             SilentUnderflow::kStepsBetweenChecks * (SilentUnderflow::kChecksInARow - 1), dtype,
                             backward ? fmt::format(" at loss scale {}", scale) : "");
  if (others > 0) warning.what += fmt::format("; so have the values of {} other op{}", others, others == 1 ? "" : "s");
  const std::string op = record.module.empty() ? record.op : record.module;
  // bf16 has the range of f32, and runs in bf16 have no loss scale.
  const bool widest = record.half_dtype == DType::bf16;
  warning.advice = fmt::format("compute in {} here ({})", widest ? "f32" : "bf16 or f32",
                               suggest_dtype(op, DType::f32));
  if (backward)
    warning.advice = (widest ? fmt::format("scale the loss by a number ({}), or ", suggest_loss_scale(65536))
                             : fmt::format("raise the loss scale ({}), or ", suggest_dynamic_loss_scale())) +
                     warning.advice;
  else
    warning.advice += ", or keep its input larger";
  return warning;
}

}  // namespace

std::optional<double> SilentUnderflow::confirmation_factor(std::int64_t step) const {
  const auto undecided = [](const Candidate& c) { return !c.reported && !c.vanished && c.checks >= kChecksInARow - 1; };
  if (!due(step) || std::ranges::none_of(backward_, undecided)) return std::nullopt;
  const double binades = std::min(std::floor(headroom_) - 1, kMaxRaised);
  return binades >= kMinRaised ? std::optional(std::exp2(binades)) : std::nullopt;
}

/// Updates the candidates of one direction with the records of a step and returns those to report. `decided`: there was
/// an extra run at a higher loss scale, with the records `raised`.
std::vector<SilentUnderflow::Underflow> SilentUnderflow::find_underflows(std::vector<Candidate>& candidates,
                                                                         std::span<const Telemetry::OpRecord> records,
                                                                         std::span<const Telemetry::OpRecord> raised,
                                                                         bool decided) {
  std::vector<Underflow> found;
  candidates.resize(std::max(candidates.size(), records.size()));
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Telemetry::OpRecord& record = records[i];
    Candidate& candidate = candidates[i];
    if (record.op == nullptr) continue;
    if (candidate.module != record.module || candidate.op != record.op)
      candidate = {.module = record.module, .op = record.op};
    candidate.vanished = all_underflow(record.amax, record.half_dtype);
    const bool suspect = candidate.vanished || record.zero_share() > candidate.legal;
    candidate.checks = suspect ? std::min<std::int64_t>(candidate.checks + 1, kChecksInARow) : 0;
    if (candidate.reported || candidate.checks < kChecksInARow) continue;
    const double lost = candidate.vanished ? 1 : decided && i < raised.size() ? lost_share(record, raised[i]) : 0;
    if (lost > kMinLost) {
      candidate.reported = true;
      found.push_back({i, lost});
    } else if (decided) {
      candidate.legal = std::min(record.zero_share() + kLegalMargin, 1.0);
      candidate.checks = 0;
    }
  }
  return found;
}

std::optional<Warning> SilentUnderflow::observe(std::int64_t step, double loss_scale, const Telemetry& telemetry,
                                                const Telemetry* raised) {
  const auto forward = telemetry.records(Direction::kForward), backward = telemetry.records(Direction::kBackward);
  const std::vector<Underflow> in_forward = find_underflows(forward_, forward, {}, false);
  const std::vector<Underflow> in_backward = find_underflows(
      backward_, backward, raised != nullptr ? raised->records(Direction::kBackward) : decltype(backward){},
      raised != nullptr);
  const double headroom = telemetry.least(Direction::kBackward).binades;
  if (!std::isnan(headroom)) headroom_ = std::clamp(headroom, 0.0, 2 * kMaxRaised);
  // Reports the op at which the underflow begins, because later ops only pass its zeros on. Backward runs from the end
  // of the tape.
  if (!in_forward.empty())
    return warning_of(forward[in_forward.front().index], Direction::kForward, step, loss_scale, in_forward.front().lost,
                      in_forward.size() + in_backward.size() - 1);
  if (in_backward.empty()) return std::nullopt;
  return warning_of(backward[in_backward.back().index], Direction::kBackward, step, loss_scale, in_backward.back().lost,
                    in_backward.size() - 1);
}

// ---- state ------------------------------------------------------------------------------------------------------

StateDict SilentUnderflow::state() const {
  StateDict state;
  state.put("headroom", headroom_);
  for (const auto& [direction, candidates] : {std::pair("forward", &forward_), {"backward", &backward_}}) {
    std::string names;
    StateDict::Integers checks, flags;
    StateDict::Numbers legal;
    for (const Candidate& c : *candidates) {
      add_line(names, c.module);
      add_line(names, c.op);
      checks.push_back(c.checks);
      flags.push_back((c.vanished ? 1 : 0) + (c.reported ? 2 : 0));
      legal.push_back(c.legal);
    }
    StateDict section;
    section.put("places", names);
    section.put("looks", checks);
    section.put("flags", flags);
    section.put("legal", legal);
    state.merge(direction, section);
  }
  return state;
}

void SilentUnderflow::load_state(const StateDict& state) {
  SilentUnderflow loaded;
  if (!state.empty()) {
    loaded.headroom_ = state.number("headroom");
    for (const auto& [direction, candidates] :
         {std::pair("forward", &loaded.forward_), {"backward", &loaded.backward_}}) {
      const StateDict section = state.section(direction);
      const std::vector<std::string> names = split_lines(section.text("places"));
      const StateDict::Integers &checks = read_counts(section, "looks"), &flags = read_counts(section, "flags");
      const StateDict::Numbers& legal = section.numbers("legal");
      check<CheckpointError>(names.size() == 2 * checks.size() && flags.size() == checks.size() &&
                                 legal.size() == checks.size(),
                             "silent underflow: the checkpoint's lists of ops have different lengths");
      for (std::size_t i = 0; i < checks.size(); ++i)
        candidates->push_back(
            {names[2 * i], names[2 * i + 1], checks[i], (flags[i] & 1) != 0, (flags[i] & 2) != 0, legal[i]});
    }
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
