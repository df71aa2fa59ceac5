// Results beyond the range of their dtype.
#include <algorithm>
#include <cmath>

#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

using enum CauseClass;

/// A diagonal matrix: `factor` times the identity.
Tensor diagonal(std::int64_t width, double factor) {
  Tensor w = Tensor::zeros({width, width});
  for (std::int64_t i = 0; i < width; ++i) w.mutable_data<float>()[i * width + i] = static_cast<float>(factor);
  return w;
}

void scale_largest_to(nn::Parameter& weight, double wanted) {
  Tensor& w = weight.mutable_value();
  double largest = 0;
  for (std::int64_t i = 0; i < w.numel(); ++i) largest = std::max(largest, std::abs(w.at(i)));
  for (float& x : std::span(w.mutable_data<float>(), static_cast<std::size_t>(w.numel())))
    x = static_cast<float>(x * (wanted / largest));
}

void scale_weight_of(Model& model, const std::string& path, double wanted) {
  for (auto& [name, parameter] : nn::named_parameters(model))
    if (name == path + ".weight") scale_largest_to(*parameter, wanted);
}

/// A product overflows f16 and is then divided by a factor. Computed in f32, the values equal those of the control run.
Plan product_beyond_half(const Spot& s) {
  return {.card = at_site(s, "linear", "forward", {"inf", "-inf"}, {kActivationOverflow}, kPromote),
          .site = [](const Variable& x, const Now& now) {
            const Variable big = linear(x * marks(now, x, 512, 1), diagonal(x.shape().cols(), 8192));
            return x * 0.95 + 0.05 * (big * marks(now, x, 0x1p-22, 0x1p-13));
          }};
}

Plan cube_in_half(const Spot& s) {
  return {.card = at_site(s, "mul", "forward", {"inf"}, {kActivationOverflow}, kPromote),
          .site = [](const Variable& x, const Now& now) {
            const Variable h = cast(x * marks(now, x, 2000, 1), DType::f16);
            return x + cast(h * h, DType::f32) * marks(now, x, 1e-9, 0.01);
          }};
}

/// The residual stream in f16, multiplied by a gain that makes it overflow.
Plan growing_gain(const Spot& s) {
  return of_whole_batch({.card = at_site(s, "mul_scalar", "forward", {"inf", "-inf"}, {kActivationOverflow}),
                         .site =
                             [](const Variable& x, const Now&) {
                               const Variable h = cast(x, DType::f16) * 0x1p30;
                               return x * 0.95 + 0.05 * (cast(h, DType::f32) * 0x1p-30);
                             }},
                        kPromote);
}

Plan sum_held_in_half(const Spot& s) {
  return {.card = at_site(s, "own_sum", "forward", {"inf"}, {kReductionOverflow}, kPromote),
          .site = [](const Variable& x, const Now& now) {
            const Variable h = cast(x * 0.0 + marks(now, x, 4000, 1), DType::f16);
            const Variable total = cast(apply_one<OwnSum>({}, {h}), DType::f32);
            return x + 0.0 * mean(total * per_sample(now, 1e-6, 1e-6));
          }};
}

Plan dice_held_in_half(const Spot& s) {
  Plan plan{.card = in_closure(s, "own_dice", "forward", {}, {kReductionOverflow, kLossFunctionSingularity}),
            .loss = [](const Variable& loss, const Variable& logits, const Batch&, const Now&) {
              const Variable p = cast(sigmoid(logits), DType::f16);
              const Tensor tall = Tensor::full({512, 512}, 1);
              const Variable map = cast(mean(cast(p, DType::f32)) * tall, DType::f16);
              return loss + 0.0 * cast(apply_one<OwnDice>({}, {map, tall}), DType::f32);
            }};
  return of_whole_batch(std::move(plan), {"promote-op", "skip-batch"});
}

/// For one step, the ops of one layer read its weights scaled by 2e5; the norm after it removes the factor, so f32
/// helps. (Not with a batch norm, whose running variance would keep it.)
Plan layer_scaled_for_a_step(const Spot& s) {
  const double factor = 2e5;
  return {.card = {.place = Place{s.product().path, s.product().op, "forward"},
                   .values = {"inf", "-inf"},
                   .judge_sample = false,
                   .causes = {kActivationOverflow},
                   .remedies = kPromote},
          .inject = {fmt::format("scale-weight@step={},path={},factor={},view=1", s.step, s.product().path, factor)}};
}

Plan exploding_initialization(const Spot& s) {
  return {.card = {.place = Place{s.product().path, s.product().op, "forward"},
                   .values = {"inf", "-inf"},
                   .judge_sample = false,
                   .causes = {kActivationOverflow},
                   .recoverable = false,
                   .remedies = {"promote-op", "stop"}},
          .initialize = [path = std::string(s.product().path)](Model& m) { scale_weight_of(m, path, 6e4); }};
}

/// A product beyond the range of f32: no precision helps.
Plan product_beyond_single(const Spot& s) {
  return {.card = at_site(s, "matmul", "forward", {"inf", "-inf", "nan"}, {kActivationOverflow}),
          .site = [](const Variable& x, const Now& now) {
            const Variable big = x * marks(now, x, 1e25, 1);
            const Variable h = reshape(big, {x.dim(0), -1, x.shape().cols()});
            return x + 0.0 * mean(matmul(h, h, {.transpose_b = true}) * 1e-3);
          }};
}

/// An input that is finite in f32 and overflows in f16.
Plan sample_beyond_half(const Spot& s) {
  const std::string first = products_of(s.model)[0].path;
  Card card{.place = Place{first, "cast", "input"},
            .values = {"inf", "-inf"},
            .sample = s.row,
            .causes = {kBadInput},
            .remedies = kLeaveOut};
  return {.card = card, .data = [](Batch& b, const Now& now) {
            for (float& x : marked_row(b.x, now)) x *= 1e7f;
          }};
}

Plan scaled_sample_drill(const Spot& s) {
  const std::string first = products_of(s.model)[0].path;
  Card card{.place = Place{first, "cast", "input"},
            .values = {"inf", "-inf"},
            .sample = s.row,
            .causes = {kBadInput},
            .remedies = kLeaveOut};
  return {.card = card, .inject = {fmt::format("scale-sample@step={},sample={},factor=1e7", s.step, s.row)}};
}

}  // namespace

std::vector<Family> overflows() {
  const std::vector<ModelKind> any = {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet};
  const std::vector<ModelKind> floating = {ModelKind::kMlp, ModelKind::kUNet};
  return {{"product-beyond-half", "overflow", product_beyond_half, any, kFp16},
          {"cube-in-half", "overflow", cube_in_half, any, kFp16},
          {"growing-gain", "overflow", growing_gain, any, kFp16},
          {"sum-held-in-half", "overflow", sum_held_in_half, any, kFp16},
          {"dice-held-in-half", "overflow", dice_held_in_half, any, kFp16},
          {"layer-scaled-for-a-step", "overflow", layer_scaled_for_a_step, {ModelKind::kMlp}, kFp16},
          {"exploding-initialization", "overflow", exploding_initialization, any, kFp16},
          {"product-beyond-single", "overflow", product_beyond_single, any, kWide},
          {"sample-beyond-half", "overflow", sample_beyond_half, floating, kFp16},
          {"scaled-sample-drill", "overflow", scaled_sample_drill, floating, kFp16}};
}

}  // namespace binade::faults
