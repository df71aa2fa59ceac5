// Gradients and updates out of range, and the loss scale.
#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

using enum CauseClass;

const char* loss_op_of(ModelKind kind) { return kind == ModelKind::kUNet ? "bce_with_logits" : "cross_entropy"; }

Card ordinary() { return {.incident = false}; }

/// A healthy model with an initial scale of 2^32: the scaler lowers it, and there is no incident.
Plan scale_too_large_at_first(const Spot&) {
  return {.card = ordinary(), .loss_scale = amp::LossScaleOptions::dynamic(0x1p32)};
}

/// A fused backward turns an overflow into NaN. The loss scaler must handle it: no incident.
Plan fused_backward_overflow(const Spot&) {
  return {.card = ordinary(),
          .site = [](const Variable& x, const Now&) { return apply_one<FusedBackward>({.limit = 1e2}, {x}); }};
}

Plan static_scale_too_large(const Spot& s) {
  return {.card = {.place = Place{"loss", loss_op_of(s.model), "backward"},
                   .values = {"inf", "-inf"},
                   .judge_sample = false,
                   .causes = {kLossScaleOverflow},
                   .recoverable = false,
                   .remedies = {"stop", "lower-scale"}},
          .loss_scale = amp::LossScaleOptions::fixed(0x1p34)};
}

/// A loss 1e10 times too large, with loss scaling off.
Plan loss_too_large_without_a_scale(const Spot& s) {
  return {.card = {.place = Place{"loss", loss_op_of(s.model), "backward"},
                   .values = {"inf", "-inf"},
                   .judge_sample = false,
                   .causes = {kGradientExplosion, kLossScaleOverflow},
                   .remedies = {"promote-op", "skip-batch"}},
          .strikes = Plan::Strikes::kBatch,
          .loss = [](const Variable& loss, const Variable&, const Batch&, const Now&) { return loss * 1e10; },
          .loss_scale = amp::LossScaleOptions::off()};
}

/// A loop that multiplies by ten, fifty times: the value stays 0, the gradient overflows.
Plan recurrence_without_clipping(const Spot& s) {
  return {.card = at_site(s, "mul_scalar", "backward", {"inf", "-inf"}, {kGradientExplosion}),
          .site = [](const Variable& x, const Now& now) {
            Variable h = x * 0.0;
            for (int t = 0; t < 50; ++t) h = h * 10.0;
            return x + h * marks(now, x, 1, 0);
          }};
}

/// The injected rate applies to every attempt at the step, so leaving out samples does not help.
Plan learning_rate_too_large(const Spot& s) {
  return {.card = {.place = Place{"", "", "optimizer"},
                   .causes = {kGradientExplosion},
                   .recoverable = false,
                   .remedies = kStop},
          .inject = {fmt::format("lr@step={},factor=1e48", s.step)}};
}

/// Injects an infinity into a gradient in every attempt at the step. No op computes it.
Plan infinite_gradient_drill(const Spot& s) {
  const std::string parameter = std::string(s.product().path) + ".weight";
  return {.card = {.place = Place{"", "", "backward"},
                   .values = {"inf"},
                   .parameter = parameter,
                   .causes = {kNotProven},
                   .recoverable = false,
                   .remedies = kStop},
          .inject = {fmt::format("inf-grad@step={},param={},index={}", s.step, parameter, s.pick(1, 16))}};
}

Plan defect_in_a_users_backward(const Spot& s) {
  return {.card = at_site(s, "defect", "backward", {"nan"}, {kNotProven}),
          .site = [](const Variable& x, const Now& now) { return apply_one<Defect>({.backward_row = now.row}, {x}); }};
}

}  // namespace

std::vector<Family> gradients() {
  const std::vector<ModelKind> any = {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet};
  return {{"scale-too-large-at-first", "gradients", scale_too_large_at_first, any, kFp16},
          {"fused-backward-overflow", "gradients", fused_backward_overflow, any, kFp16},
          {"static-scale-too-large", "gradients", static_scale_too_large, any, kFp16},
          {"loss-too-large-without-a-scale", "gradients", loss_too_large_without_a_scale, any, kFp16},
          {"recurrence-without-clipping", "gradients", recurrence_without_clipping},
          {"learning-rate-too-large", "gradients", learning_rate_too_large},
          {"infinite-gradient-drill", "gradients", infinite_gradient_drill},
          {"defect-in-a-users-backward", "gradients", defect_in_a_users_backward}};
}

}  // namespace binade::faults
