/// Masks of -inf, and of numbers that become -inf.
#include <cmath>
#include <limits>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;
constexpr double kInf = std::numeric_limits<double>::infinity();

/// One sample consists of padding only: all keys of its rows are masked.
void padded_sample(Run& run) {
  auto& attention = run.net.add<nn::MultiHeadAttention>(
      "attention", nn::MultiHeadAttentionOptions{.dim = 8, .heads = 2, .composed = true});
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) {
    const Variable mask = reshape(b.z, {-1, 1, 1, 5});
    return nn::cross_entropy(head(mean(attention(b.x, mask), {1})), b.y);
  };
  const auto healthy = [](std::uint64_t seed) {
    return batch_of(normal(seed, {4, 5, 8}), labels(seed, {4}, 4), Tensor::full({4, 5}, 0));
  };
  Batch faulty = healthy(9);
  fill_row(faulty.z, 1, -kInf);
  run.fault_between(healthy, faulty);
}

/// Two masks of finfo(fp16).min add up to -inf, as does one mask with a score below -16. So a whole row is -inf.
void two_masks(Run& run) {
  nn::Parameter& scale = run.net.parameter("scale", Tensor::full({4}, 1));
  nn::Module& attention = run.net.formula("attention");
  nn::Linear& head = run.net.linear("head", 4, 3);
  run.options.precision = half_in("attention");
  const Tensor causal = Tensor::from(std::vector<float>{0, -65504, 0, 0}, {1, 2, 2});
  run.loss = [&, causal](const Batch& b) {
    const Variable h = b.x * scale;
    const Variable y = inside(attention, [&] {
      const Variable scores = matmul(h, -h, {.transpose_b = true}) * 0.5;
      return matmul(softmax(scores + (Variable(causal) + reshape(b.z, {-1, 1, 2}))), h);
    });
    return nn::cross_entropy(head(mean(y, {1})), b.y);
  };
  const auto healthy = [](std::uint64_t seed) {
    return batch_of(normal(seed, {4, 2, 4}), labels(seed, {4}, 3), Tensor::full({4, 2}, 0));
  };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 1, 4);  // scores of -32
  faulty.z.narrow(1, 1).copy_from(Tensor::from(std::vector<float>{-65504, 0}, {1, 2}));
  run.check(std::isinf(to_half(-65504 - 32)), "finfo.min - 32 is -inf in f16");
  run.fault_between(healthy, faulty);
}

/// Distillation over a padded vocabulary: p_teacher log p_student. For a padding token, p_teacher is 0 and the
/// logarithm is -inf.
void padded_vocabulary(Run& run) {
  nn::Linear& student = run.net.linear("student", 8, 5);
  nn::Module& distill = run.net.formula("distill");
  const Tensor padding = Tensor::from(std::vector<float>{0, 0, 0, 0, -HUGE_VALF}, {5});
  run.loss = [&, padding](const Batch& b) {
    const Variable s = student(b.x);
    return inside(distill, [&] {
      const Variable teacher = softmax(Variable(b.y) + padding);
      return -mean(sum(teacher * log_softmax(s + padding), {-1}));
    });
  };
  run.check(std::isnan(0.0 * -kInf), "0 x -inf is NaN");
  run.repeat(3, [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), normal(seed + 50, {6, 5})); });
}

/// Label smoothing gives every class a share of the loss, also classes whose logit is masked with -inf.
void smoothed_mask(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 5);
  const Tensor mask = Tensor::from(std::vector<float>{0, 0, -HUGE_VALF, 0, 0}, {5});
  run.loss = [&, mask](const Batch& b) { return nn::cross_entropy(head(b.x) + mask, b.y, {.label_smoothing = 0.1}); };
  run.repeat(3, [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 2)); });
}

}  // namespace

std::vector<Issue> masks() {
  return {
      {"padded-sample",
       "https://github.com/pytorch/pytorch/issues/40932",
       "one example of the batch is full of padding, so that its key_padding_mask is all True",
       "fp32",
       {{"softmax"}, {"attention"}, "forward", 1, {Cause::kFullyMaskedRow}, "leave a key visible, or drop the sample"},
       padded_sample},
      {"two-masks",
       "https://github.com/huggingface/transformers/pull/17306",
       "finfo(fp16).min plus another mask, or plus a score below -16, is -inf; a row of -inf gives NaN after softmax",
       "fp16",
       {{"softmax", "add"},
        {"attention"},
        "forward",
        1,
        {Cause::kFullyMaskedRow, Cause::kActivationOverflow},
        "f32 for the masked scores"},
       two_masks},
      {"padded-vocabulary",
       "https://github.com/OpenBMB/ModelCenter/issues/14",
       "x log y with x = y = 0, from logits of -inf of a padded vocabulary, is 0 x -inf = NaN",
       "fp32",
       {{"mul"},
        {"distill"},
        "forward",
        {},
        {Cause::kArithmeticSingularity, Cause::kLossFunctionSingularity},
        "leave the masked classes out of the sum"},
       padded_vocabulary},
      {"smoothed-mask",
       "https://github.com/facebookresearch/pytext/pull/1698",
       "label smoothing loss is infinite if any logit is -inf",
       "fp32",
       {{"cross_entropy"}, {}, "forward", {}, {Cause::kLossFunctionSingularity}, "no smoothing over masked classes"},
       smoothed_mask},
  };
}

}  // namespace binade::issues
