#include "binade/amp/watch/gradient_path.h"

#include <algorithm>

namespace binade::amp {
namespace {

using Reason = MissingGradient::Reason;

/// True if `path` is `module` or a module in it.
bool within(std::string_view path, std::string_view module) {
  return module.empty() || path == module || (path.starts_with(module) && path[module.size()] == '.');
}

bool reads(const Telemetry::OpRecord& op, std::size_t producer) {
  return std::ranges::find(op.producers, static_cast<std::int64_t>(producer)) != op.producers.end();
}

}  // namespace

MissingGradient why_no_gradient(const Telemetry& telemetry, std::string_view module) {
  const auto forward = telemetry.records(Direction::kForward), backward = telemetry.records(Direction::kBackward);
  const auto reached = [&](std::size_t i) { return i < backward.size() && backward[i].op != nullptr; };
  const auto only_moves = [&](std::size_t i) { return reached(i) && !backward[i].amax.any(); };
  const auto underflows = [&](std::size_t i) {
    return reached(i) && all_underflow(backward[i].amax, backward[i].half_dtype);
  };
  const auto makes_zeros = [&](std::size_t i) { return underflows(i) || (reached(i) && only_zeros(backward[i].amax)); };

  bool called = false;
  std::size_t last = forward.size();  // tape index of the last op of the module that backward reached
  for (std::size_t i = 0; i < forward.size(); ++i) {
    if (forward[i].op == nullptr || !within(forward[i].module, module)) continue;
    called = true;
    if (reached(i)) last = i;
  }
  if (!called) return {forward.empty() ? Reason::kUnknown : Reason::kNotCalled};
  if (last == forward.size()) return {Reason::kCut};
  if (makes_zeros(last) || only_moves(last)) {
    // Follows the gradients of 0 from the module towards the loss, to the op that computed them.
    std::size_t zero = forward.size(), at = last;
    for (std::size_t i = last; i < forward.size(); ++i) {
      if (i != last && !(reads(forward[i], at) && (makes_zeros(i) || only_moves(i)))) continue;
      at = i;
      if (makes_zeros(i)) zero = i;
    }
    if (zero == forward.size()) return {};
    return {underflows(zero) ? Reason::kUnderflow : Reason::kMadeZero, &forward[zero]};
  }
  for (std::size_t i = 0; i <= last; ++i)
    if (forward[i].op != nullptr && within(forward[i].module, module))
      for (const std::int64_t producer : forward[i].producers)
        if (const Telemetry::OpRecord& input = forward[static_cast<std::size_t>(producer)]; only_zeros(input.amax))
          return {Reason::kZeroInput, &input};
  return {};
}

}  // namespace binade::amp
