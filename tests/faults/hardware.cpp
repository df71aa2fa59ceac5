// Faults that do not recur when the step is run again.
#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

using enum CauseClass;

Card not_reproducible() {
  return {.judge_sample = false, .causes = {kNotReproducible}, .remedies = {"none", "retry", "lower-scale"}};
}

Plan flipped_bit_in_an_activation(const Spot&) {
  return {.card = not_reproducible(),
          .site = [](const Variable& x, const Now& now) { return apply_one<Flipped>({.now = now.runs == 1}, {x}); }};
}

Plan flipped_bit_in_a_gradient(const Spot&) {
  return {.card = not_reproducible(), .site = [](const Variable& x, const Now& now) {
            return apply_one<Flipped>({.now = now.runs == 1, .backward = true}, {x});
          }};
}

/// A closure with a data race: its result differs in the replay.
Plan race_in_the_closure(const Spot&) {
  return {.card = not_reproducible(), .loss = [](const Variable& loss, const Variable&, const Batch&, const Now& now) {
            return loss * (now.runs == 1 ? std::numeric_limits<double>::quiet_NaN() : 1);
          }};
}

Plan infinite_gradient_once_drill(const Spot& s) {
  return {.card = not_reproducible(),
          .inject = {fmt::format("inf-grad@step={},param={},once=1", s.step, s.product().path)}};
}

/// A defect in a user's op that recurs in every replay: not the hardware.
Plan defect_in_a_users_op(const Spot& s) {
  return {.card = at_site(s, "defect", "forward", {"nan"}, {kNotProven}),
          .site = [](const Variable& x, const Now& now) { return apply_one<Defect>({.forward_row = now.row}, {x}); }};
}

}  // namespace

std::vector<Family> hardware_faults() {
  return {{"flipped-bit-in-an-activation", "hardware", flipped_bit_in_an_activation},
          {"flipped-bit-in-a-gradient",
           "hardware",
           flipped_bit_in_a_gradient,
           {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet},
           kWide},
          {"race-in-the-closure", "hardware", race_in_the_closure},
          {"infinite-gradient-once-drill",
           "hardware",
           infinite_gradient_once_drill,
           {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet},
           kWide},
          {"defect-in-a-users-op", "hardware", defect_in_a_users_op}};
}

}  // namespace binade::faults
