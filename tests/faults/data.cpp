// Batches with values that are not finite.
#include "tests/faults/plan.h"

namespace binade::faults {
namespace {

using enum CauseClass;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Card bad_input(const Spot& s, std::string module, std::string op, std::vector<std::string> values) {
  return {.place = Place{std::move(module), std::move(op), "input"},
          .values = std::move(values),
          .sample = s.row,
          .causes = {kBadInput},
          .remedies = kLeaveOut};
}

/// A bad value in the input: the first layer reads it.
Card bad_pixel(const Spot& s, std::string value) {
  const Product& first = products_of(s.model)[0];
  return bad_input(s, first.path, first.op, {std::move(value)});
}

Plan pixel(const Spot& s, float value, const char* name) {
  return {.card = bad_pixel(s, name), .data = [value, at = s.pick(1, 16)](Batch& b, const Now& now) {
            marked_row(b.x, now)[static_cast<std::size_t>(at)] = value;
          }};
}
Plan nan_pixel(const Spot& s) { return pixel(s, kNan, "nan"); }
Plan infinite_pixel(const Spot& s) { return pixel(s, kInfinity, "inf"); }
Plan negative_infinite_pixel(const Spot& s) { return pixel(s, -kInfinity, "-inf"); }

Plan unreadable_sample(const Spot& s) {
  return {.card = bad_pixel(s, "nan"), .data = [](Batch& b, const Now& now) {
            for (float& x : marked_row(b.x, now)) x = kNan;
          }};
}

Plan target(const Spot& s, float value, const char* name) {
  return {.card = bad_input(s, "loss", "bce_with_logits", {name}),
          .data = [value, at = s.pick(1, 256)](Batch& b, const Now& now) {
            marked_row(b.y, now)[static_cast<std::size_t>(at)] = value;
          }};
}
Plan nan_target(const Spot& s) { return target(s, kNan, "nan"); }
Plan infinite_target(const Spot& s) { return target(s, kInfinity, "inf"); }

/// A NaN among the per-sample weights of the loss.
Plan nan_sample_weight(const Spot& s) {
  return {.card = bad_input(s, "", "mul", {"nan"}),
          .loss = [](const Variable& loss, const Variable& logits, const Batch&, const Now& now) {
            const Variable each = mean(reshape(square(logits), {logits.dim(0), -1}), {1});
            return loss + 0.01 * mean(each * per_sample(now, kNan, 1));
          }};
}

/// A NaN in a second input, which enters between two layers.
Plan nan_side_input(const Spot& s) {
  return {.card = bad_input(s, s.site_path(), "add", {"nan"}),
          .site = [](const Variable& x, const Now& now) { return x + marks(now, x, kNan, 0); }};
}

Plan nan_input_drill(const Spot& s) {
  Card card = bad_pixel(s, "nan");
  if (s.model == ModelKind::kGpt) card.place = Place{"tokens", "embedding", "input"};
  return {.card = card, .inject = {fmt::format("nan-input@step={},sample={}", s.step, s.row)}};
}

}  // namespace

std::vector<Family> data_faults() {
  const std::vector<ModelKind> any = {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet};
  const std::vector<ModelKind> floating = {ModelKind::kMlp, ModelKind::kUNet};
  const std::vector<std::string> all = {"fp32", "bf16", "fp16"};
  return {{"nan-pixel", "data", nan_pixel, floating},
          {"infinite-pixel", "data", infinite_pixel, floating},
          {"negative-infinite-pixel", "data", negative_infinite_pixel, floating},
          {"unreadable-sample", "data", unreadable_sample, floating},
          {"nan-target", "data", nan_target, {ModelKind::kUNet}},
          {"infinite-target", "data", infinite_target, {ModelKind::kUNet}},
          {"nan-sample-weight", "data", nan_sample_weight},
          {"nan-side-input", "data", nan_side_input},
          {"nan-input-drill", "data", nan_input_drill},
          {"one-bad-micro-batch", "data", nan_pixel, floating, all, 3},
          {"one-bad-micro-batch-in-the-middle", "data", nan_side_input, any, all, 3}};
}

}  // namespace binade::faults
