// Losses at their singularities, in the closure and so outside of every module.
#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

using enum CauseClass;

const std::vector<ModelKind> kUNetOnly = {ModelKind::kUNet};
const std::vector<ModelKind> kClassifiers = {ModelKind::kMlp, ModelKind::kGpt};

/// Adds a small multiple of `extra` to the loss.
template <class F>
Plan term(Card card, F&& extra) {
  return {.card = std::move(card),
          .loss = [extra = std::forward<F>(extra)](const Variable& loss, const Variable& logits, const Batch& b,
                                                   const Now& now) { return loss + 0.05 * extra(logits, b, now); }};
}

/// Cross-entropy of a sigmoid that has rounded to 1 where the target is 0: log(0).
Plan bce_after_sigmoid(const Spot& s) {
  Card card = in_closure(s, "bce", "forward", {"inf"}, {kLossFunctionSingularity});
  card.place->module = "loss";
  return term(card, [](const Variable& logits, const Batch& b, const Now& now) {
    return bce(sigmoid(logits + marks(now, logits, 60, 0)), b.y);
  });
}

Plan own_bce(const Spot& s) {
  return term(in_closure(s, "log", "forward", {"-inf"}, {kArithmeticSingularity}),
              [](const Variable& logits, const Batch&, const Now& now) {
                const Variable p = sigmoid(logits + marks(now, logits, 60, 0));
                return -mean(log(1.0 - p));
              });
}

/// Dice without smoothing. If prediction and target are empty, it is 0 / 0.
Plan dice_of_an_empty_class(const Spot& s) {
  Card card = in_closure(s, "dice", "forward", {"nan"}, {kLossFunctionSingularity});
  card.place->module = "loss";
  return of_whole_batch(term(card, [](const Variable& logits, const Batch&, const Now&) {
    return dice(relu(sigmoid(logits) - 2.0), Tensor::zeros(logits.shape()), 0);
  }));
}

Plan no_valid_label(const Spot& s) {
  Card card = in_closure(s, "cross_entropy", "forward", {"nan"}, {kLossFunctionSingularity});
  card.place->module = "loss";
  return of_whole_batch({.card = card, .data = [](Batch& b, const Now&) {
                           std::int64_t* y = b.y.mutable_data<std::int64_t>();
                           std::fill(y, y + b.y.numel(), -100);
                         }});
}

Plan weights_that_add_up_to_zero(const Spot& s) {
  return of_whole_batch(term(in_closure(s, "div", "forward", {"nan"}, {kArithmeticSingularity}),
                             [](const Variable& logits, const Batch&, const Now& now) {
                               const Variable weights = marks(now, logits, 0, 0);
                               return sum(square(logits) * weights) / sum(weights);
                             }));
}

/// Each sample's loss divided by its count of tokens, which is 0 for a sample of padding only.
Plan sample_without_tokens(const Spot& s) {
  return term(in_closure(s, "div", "forward", {"nan"}, {kArithmeticSingularity}),
              [](const Variable& logits, const Batch&, const Now& now) {
                const Variable each = mean(reshape(square(logits), {logits.dim(0), -1}), {1});
                const Variable counts = per_sample(now, 0, 1);
                return mean(each * counts / counts);
              });
}

/// An auxiliary loss: the log of a probability that is 0 from the marked batch on. where() hides the infinite value,
/// but not the gradient.
Plan auxiliary_log_every_step(const Spot& s) {
  Card card = in_closure(s, "log", "backward", {"nan"}, {kArithmeticSingularity});
  card.judge_sample = false;
  card.recoverable = false;
  card.remedies = kStop;
  Plan plan = term(card, [](const Variable& logits, const Batch&, const Now&) {
    const Variable p = square(logits) * 0.0;
    const Variable seen(Tensor::zeros(logits.shape(), DType::u8));
    return mean(where(seen, log(p), p));
  });
  plan.strikes = Plan::Strikes::kAlways;
  return plan;
}

Plan focal_gradient_at_one(const Spot& s) {
  return term(in_closure(s, "pow", "backward", {"inf", "-inf", "nan"}, {kArithmeticSingularity}),
              [](const Variable& logits, const Batch&, const Now& now) {
                const Variable p = sigmoid(logits * 0.1 + marks(now, logits, 60, 0));
                return mean(pow(1.0 - p, 0.5));
              });
}

/// sum(t log(softmax)): 0 * -inf where the target is 0 and the softmax underflows.
Plan log_of_softmax_as_loss(const Spot& s) {
  return term(in_closure(s, "log", "forward", {"-inf"}, {kArithmeticSingularity}),
              [](const Variable& logits, const Batch&, const Now& now) {
                const Variable flat = reshape(logits, {logits.dim(0), -1});
                return -mean(log(softmax(flat * marks(now, flat, 1e5, 0.01))) * 0.01);
              });
}

Plan divergence_from_a_target_of_zero(const Spot& s) {
  return term(in_closure(s, "log", "forward", {"-inf"}, {kArithmeticSingularity}),
              [](const Variable& logits, const Batch&, const Now& now) {
                const Variable t = marks(now, logits, 0, 0.5);
                return mean(t * (log(t) - log_softmax(logits)));
              });
}

/// (r - mean) / std. If all rewards are equal, it is 0 / 0.
Plan advantages_without_spread(const Spot& s) {
  return of_whole_batch(term(in_closure(s, "div", "forward", {"nan"}, {kArithmeticSingularity}),
                             [](const Variable& logits, const Batch&, const Now& now) {
                               const Variable rewards = per_sample(now, 1, 1);
                               const Variable centered = rewards - mean(rewards);
                               const Variable advantages = centered / sqrt(mean(square(centered)));
                               return mean(mean(reshape(logits, {logits.dim(0), -1}), {1}) * advantages);
                             }));
}

/// The norm of a difference that is 0: its gradient is 0 / 0.
Plan distance_to_itself(const Spot& s) {
  return of_whole_batch(term(in_closure(s, "sqrt", "backward", {"inf", "-inf", "nan"}, {kArithmeticSingularity}),
                             [](const Variable& logits, const Batch&, const Now&) {
                               return sqrt(sum(square(logits - logits.detach())));
                             }));
}

Plan union_of_nothing(const Spot& s) {
  return term(in_closure(s, "div", "forward", {"nan"}, {kArithmeticSingularity}),
              [](const Variable& logits, const Batch&, const Now& now) {
                const Variable p = reshape(sigmoid(logits) * marks(now, logits, 0, 1), {logits.dim(0), -1});
                const Variable both = sum(p * p, {1}), either = sum(p, {1});
                return mean(1.0 - both / either);
              });
}

}  // namespace

std::vector<Family> losses() {
  return {{"bce-after-sigmoid", "losses", bce_after_sigmoid, kUNetOnly, kFp32},
          {"own-bce", "losses", own_bce},
          {"dice-of-an-empty-class", "losses", dice_of_an_empty_class},
          {"no-valid-label", "losses", no_valid_label, kClassifiers},
          {"weights-that-add-up-to-zero", "losses", weights_that_add_up_to_zero},
          {"sample-without-tokens", "losses", sample_without_tokens},
          {"auxiliary-log-every-step", "losses", auxiliary_log_every_step},
          {"focal-gradient-at-one", "losses", focal_gradient_at_one},
          {"log-of-softmax-as-loss", "losses", log_of_softmax_as_loss},
          {"divergence-from-a-target-of-zero", "losses", divergence_from_a_target_of_zero},
          {"advantages-without-spread", "losses", advantages_without_spread},
          {"distance-to-itself", "losses", distance_to_itself},
          {"union-of-nothing", "losses", union_of_nothing}};
}

}  // namespace binade::faults
