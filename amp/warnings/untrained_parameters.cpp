#include "binade/amp/warnings/untrained_parameters.h"

#include <algorithm>
#include <set>

#include "binade/amp/state_rows.h"
#include "binade/amp/text.h"
#include "binade/amp/watch/gradient_path.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

using Reason = MissingGradient::Reason;
using Slice = optim::FlatParameters::Slice;

std::string module_of(const Slice& parameter) { return amp::module_of(parameter.name); }

bool is_matrix(const Slice& parameter) { return parameter.variable.shape().rank() >= 2; }

/// Modules without a gradient for the same reason, and their parameters.
struct Group {
  MissingGradient why{};
  std::string module{};  // path of the first module
  std::vector<std::string> parameters{};
};

std::string reason_text(const Group& group) {
  const std::string module = group.module.empty() ? "the model" : group.module;
  switch (group.why.reason) {
    case Reason::kUnknown:
    case Reason::kUnderflow: return "";
    case Reason::kNotCalled: return fmt::format(": {} is never called", module);
    case Reason::kCut: return fmt::format(": backward does not reach {}", module);
    case Reason::kMadeZero:
      return fmt::format(": backward of {} makes it 0", quoted_op(group.why.op->op, group.why.op->module));
    case Reason::kZeroInput:
      return fmt::format(": the input of {}, the result of {}, is 0", module,
                         quoted_op(group.why.op->op, group.why.op->module));
  }
  return "";
}

std::string advice_of(const Group& group) {
  switch (group.why.reason) {
    case Reason::kNotCalled: return "call it, or remove it from the model or the optimizer";
    case Reason::kCut:
      return "look for detach(), a NoGradGuard or a tensor made from values between it and the loss; if it is frozen "
             "on purpose, keep it out of the optimizer";
    case Reason::kMadeZero:
      return group.why.op->info->saturates
                 ? "its operands are where its derivative is 0: scale them down, or initialize them closer to 0"
                 : "look at its operands: dead ReLUs, a factor of 0, or values outside the bounds of a clamp";
    case Reason::kZeroInput: return "look at what makes this input 0";
    case Reason::kUnknown:
    case Reason::kUnderflow: break;
  }
  return "look for dead units, a factor of 0 or a loss that does not depend on it; in 16 bits raise the loss scale";
}

Warning warning_of(const Group& group, std::int64_t steps, bool others_learn, const CommittedStep& step) {
  Warning warning{.kind = WarningKind::kUntrainedParameters,
                  .step = step.step,
                  .module = group.module,
                  .direction = "backward",
                  .dtype = "f32"};
  warning.what = fmt::format("does not train: {} {} had no gradient other than 0 for {} steps{}{}",
                             abbreviated(group.parameters), group.parameters.size() == 1 ? "has" : "have", steps,
                             others_learn ? ""
                                          : fmt::format(" at a loss of {:.3g}, nor has any other parameter", step.loss),
                             reason_text(group));
  warning.advice = advice_of(group);
  return warning;
}

}  // namespace

void UntrainedParameters::count(const CommittedStep& step) {
  const std::span<const std::uint32_t> largest = step.largest_gradients;
  if (stretches_.size() != largest.size()) stretches_.assign(largest.size(), {});
  if (step.loss == 0 && std::ranges::none_of(largest, [](std::uint32_t word) { return word != 0; })) return;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    if (!step.trained.empty() && step.trained[i] == 0) continue;
    Stretch& stretch = stretches_[i];
    if (largest[i] == 0) {
      stretch.steps = std::min(stretch.steps + 1, kMaxCount);
    } else {
      stretch.longest = std::max(stretch.longest, stretch.steps);
      stretch.steps = 0;
    }
  }
}

void UntrainedParameters::find(const CommittedStep& step, std::vector<Warning>& found) {
  count(step);
  if (step.step % kStepsBetweenReports != 0) return;
  const optim::ParameterList& parameters = step.parameters;
  std::set<std::string> due;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    if (!stretches_[i].is_due() || stretches_[i].reported != 0 || !parameters[i]->variable.requires_grad()) continue;
    const std::string module = module_of(*parameters[i]);
    if (is_matrix(*parameters[i]) || std::ranges::none_of(parameters, [&](const Slice* other) {
          return is_matrix(*other) && module_of(*other) == module;
        }))
      due.insert(module);
  }
  if (due.empty()) return;

  std::vector<Group> groups;
  std::int64_t steps = kMaxCount;
  for (const std::string& module : due) {
    const MissingGradient why = why_no_gradient(step.telemetry, module);
    if (why.reason == Reason::kUnderflow) continue;  // SilentUnderflow reports it
    auto group = std::ranges::find_if(groups,
                                      [&](const Group& g) { return g.why.reason == why.reason && g.why.op == why.op; });
    if (group == groups.end()) group = groups.insert(group, {.why = why, .module = module});
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      if (!stretches_[i].is_due() || module_of(*parameters[i]) != module) continue;
      stretches_[i].reported = 1;
      steps = std::min(steps, stretches_[i].steps);
      group->parameters.push_back(parameters[i]->name);
    }
  }
  const bool others_learn = std::ranges::any_of(step.largest_gradients, [](std::uint32_t word) { return word != 0; });
  for (const Group& group : groups) found.push_back(warning_of(group, steps, others_learn, step));
}

StateDict UntrainedParameters::state() const {
  StateDict state;
  put_rows<Stretch>(state, stretches_,
                    {{"steps", &Stretch::steps}, {"longest", &Stretch::longest}, {"reported", &Stretch::reported}});
  return state;
}

void UntrainedParameters::load_state(const StateDict& state) {
  stretches_ = read_rows<Stretch>(
      state, "untrained parameters",
      {{"steps", &Stretch::steps}, {"longest", &Stretch::longest}, {"reported", &Stretch::reported}});
}

}  // namespace binade::amp
