// Programs that look faulty but are healthy: there must be no incident, and no sample or step may be left out.
#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class F>
Plan legal_site(F&& term) {
  return {.card = {.incident = false}, .site = [term = std::forward<F>(term)](const Variable& x, const Now& now) {
            return x + 0.001 * term(x, now);
          }};
}
template <class F>
Plan legal_loss(F&& term) {
  return {.card = {.incident = false},
          .loss = [term = std::forward<F>(term)](const Variable& loss, const Variable& logits, const Batch& b,
                                                 const Now& now) { return loss + 0.001 * term(logits, b, now); }};
}

Plan nothing_planted(const Spot&) { return {.card = {.incident = false}}; }

Plan masks_that_leave_something(const Spot&) {
  return legal_site([](const Variable& x, const Now&) {
    std::vector<float> mask(static_cast<std::size_t>(x.shape().cols()), static_cast<float>(-kInfinity));
    mask[0] = 0;
    return softmax(x + Tensor::from(mask, {x.shape().cols()}));
  });
}

Plan large_negative_mask_in_single(const Spot&) {
  return legal_site([](const Variable& x, const Now& now) { return softmax(x * 1.0 + marks(now, x, -1e9, 0)); });
}

Plan row_masked_in_built_in_attention(const Spot&) {
  return legal_site([](const Variable& x, const Now& now) {
    const Variable h = reshape(x, {x.dim(0), -1, 1, x.shape().cols()});
    const Variable keys = reshape(h * 0.0, {h.dim(0), -1});
    const Variable mask = narrow(keys, 1, 0, h.dim(1)).value() + marks(now, keys, -kInfinity, 0);
    return reshape_like(attention(h, h, h, {}, mask), x);
  });
}

Plan tiny_gradients(const Spot&) {
  return legal_loss([](const Variable& logits, const Batch&, const Now&) { return mean(square(logits * 1e-18)); });
}

Plan constant_rows_with_eps(const Spot&) {
  return legal_site([](const Variable& x, const Now& now) { return layer_norm(positive_but(now, x, 0)); });
}

Plan zero_loss(const Spot&) {
  return legal_loss([](const Variable& logits, const Batch&, const Now&) { return sum(logits * 0.0); });
}

Plan guarded_division(const Spot&) {
  return legal_site([](const Variable& x, const Now& now) {
    const Variable v = positive_but(now, x, 0);
    return v / (sum(v, {-1}, true) + 1e-6);
  });
}

Plan guarded_log(const Spot&) {
  return legal_site(
      [](const Variable& x, const Now& now) { return 0.01 * log(clamp(positive_but(now, x, 0), 1e-6, 1e6)); });
}

Plan dice_with_smoothing_of_nothing(const Spot&) {
  return legal_loss([](const Variable& logits, const Batch&, const Now&) {
    return dice(relu(sigmoid(logits) - 2.0), Tensor::zeros(logits.shape()), 1);
  });
}

Plan bce_of_certain_logits(const Spot&) {
  return legal_loss([](const Variable& logits, const Batch&, const Now& now) {
    return 0.01 * bce_with_logits(logits + marks(now, logits, 100, 0), Tensor::zeros(logits.shape()));
  });
}

/// Values near the maximum of f16, but within it.
Plan large_in_range_activations(const Spot&) {
  return legal_site([](const Variable& x, const Now& now) {
    const Variable bounded = cast(tanh(x) * marks(now, x, 6e4, 1), DType::f16);
    return cast(bounded * 0x1p-14, DType::f32);
  });
}

/// A card without an incident. The data differ from those of the control run, so the final losses are not compared.
Card quiet() { return {.incident = false, .recoverable = false}; }

/// A batch whose loss is far larger than usual: gradients are large and finite.
Plan hard_batch(const Spot&) {
  return {.card = quiet(), .data = [](Batch& b, const Now& now) {
            for (float& x : marked_row(b.x, now)) x *= 20;
          }};
}

Plan sample_of_zeros(const Spot&) {
  return {.card = quiet(), .data = [](Batch& b, const Now& now) {
            for (float& x : marked_row(b.x, now)) x = 0;
          }};
}

Plan some_labels_ignored(const Spot& s) {
  return {.card = quiet(), .data = [rows = s.rows()](Batch& b, const Now& now) {
            const std::int64_t width = b.y.numel() / rows;
            std::int64_t* y = b.y.mutable_data<std::int64_t>() + now.row * width;
            std::fill(y, y + width, -100);
          }};
}

}  // namespace

std::vector<Family> controls() {
  const std::vector<ModelKind> floating = {ModelKind::kMlp, ModelKind::kUNet};
  return {{"control-nothing-planted", "controls", nothing_planted},
          {"control-masks-that-leave-something", "controls", masks_that_leave_something},
          {"control-large-negative-mask-in-single", "controls", large_negative_mask_in_single},
          {"control-row-masked-in-built-in-attention", "controls", row_masked_in_built_in_attention},
          {"control-tiny-gradients", "controls", tiny_gradients},
          {"control-constant-rows-with-eps", "controls", constant_rows_with_eps},
          {"control-zero-loss", "controls", zero_loss},
          {"control-guarded-division", "controls", guarded_division},
          {"control-guarded-log", "controls", guarded_log},
          {"control-dice-with-smoothing-of-nothing", "controls", dice_with_smoothing_of_nothing},
          {"control-bce-of-certain-logits", "controls", bce_of_certain_logits},
          {"control-large-in-range-activations", "controls", large_in_range_activations},
          {"control-hard-batch", "controls", hard_batch, floating},
          {"control-sample-of-zeros", "controls", sample_of_zeros, floating},
          {"control-some-labels-ignored", "controls", some_labels_ignored, {ModelKind::kMlp, ModelKind::kGpt}}};
}

}  // namespace binade::faults
