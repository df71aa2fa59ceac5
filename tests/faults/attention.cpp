// Masks, hand-written softmax, and logits out of range.
#include <cmath>

#include "tests/faults/plan.h"

namespace binade::faults {
namespace {

using enum CauseClass;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// x times the identity matrix: the values of x in the policy's dtype, like the scores of an attention.
Variable scores_of(const Variable& x) {
  const std::int64_t width = x.shape().cols();
  Tensor identity = Tensor::zeros({width, width});
  for (std::int64_t i = 0; i < width; ++i) identity.mutable_data<float>()[i * width + i] = 1;
  return linear(x, identity);
}

/// Masks every key of the marked sample.
Plan fully_masked_row(const Spot& s) {
  return {.card = at_site(s, "softmax", "forward", {"nan"}, {kFullyMaskedRow}),
          .site = [](const Variable& x, const Now& now) {
            return x + softmax(scores_of(x) + marks(now, x, -kInfinity, 0));
          }};
}

/// Masks with -1e9 in the dtype of the scores: finite in f32, but -inf in f16.
Plan mask_constant_beyond_half(const Spot& s) {
  Card card = at_site(s, "softmax", "forward", {"nan"}, {kFullyMaskedRow});
  card.remedies = {"promote-op", "quarantine-sample", "skip-batch"};
  return {.card = card, .site = [](const Variable& x, const Now& now) {
            const Variable scores = scores_of(x);
            return x + softmax(scores + marks(now, x, -1e9, 0).value().to(scores.dtype()));
          }};
}

/// exp(x - max) / sum, for a row of -inf: the maximum is -inf, and -inf - -inf is NaN.
Plan own_softmax_of_a_masked_row(const Spot& s) {
  return {.card = at_site(s, "sub", "forward", {"nan"}, {kFullyMaskedRow}),
          .site = [](const Variable& x, const Now& now) {
            const Variable scores = scores_of(x) + marks(now, x, -kInfinity, 0);
            const Variable e = exp(scores - max(scores, {-1}, true));
            return x + e / sum(e, {-1}, true);
          }};
}

/// exp(x) / sum without subtracting the maximum first: exp overflows.
Plan own_softmax_without_maximum(const Spot& s) {
  return {.card = at_site(s, "exp", "forward", {"inf"}, {kActivationOverflow}),
          .site = [](const Variable& x, const Now& now) {
            const Variable e = exp(scores_of(x) + marks(now, x, 120, 0));
            return x + 0.05 * (e / sum(e, {-1}, true));
          }};
}

/// Query times key without the factor 1 / sqrt(d); the marked sample makes the product overflow.
Plan own_attention_logits(const Spot& s) {
  Card card = at_site(s, "matmul", "forward", {"inf", "-inf", "nan"}, {kAttentionLogitOverflow}, kPromote);
  card.place->module += ".attention";
  return {.card = card, .site = [path = card.place->module](const Variable& x, const Now& now) {
            const ModulePathScope attention(path);
            const Variable big = x * marks(now, x, 512, 1);
            const Variable h = reshape(big, {x.dim(0), -1, x.shape().cols()});
            const Variable logits = matmul(h, h, {.transpose_b = true});
            return x + 0.05 * reshape_like(matmul(softmax(logits * 1e-5), h) * 1e-3, x);
          }};
}

Plan block_logits(const Spot& s) {
  const std::string block = fmt::format("blocks.{}.attention", s.pick(0, 2));
  Plan plan{.card = {.place = Place{block, "matmul", "forward"},
                     .values = {"inf", "-inf", "nan"},
                     .judge_sample = false,
                     .causes = {kAttentionLogitOverflow},
                     .remedies = kPromote},
            .composed = true};
  for (const char* half : {"query", "key"})
    plan.inject.push_back(fmt::format("scale-weight@step={},path={}.{},factor=600,view=1", s.step, block, half));
  return plan;
}

}  // namespace

std::vector<Family> attention_faults() {
  const std::vector<ModelKind> gpt = {ModelKind::kGpt};
  return {{"fully-masked-row", "attention", fully_masked_row},
          {"mask-constant-beyond-half", "attention", mask_constant_beyond_half, gpt, kFp16},
          {"own-softmax-of-a-masked-row", "attention", own_softmax_of_a_masked_row},
          {"own-softmax-without-maximum", "attention", own_softmax_without_maximum},
          {"own-attention-logits",
           "attention",
           own_attention_logits,
           {ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet},
           kFp16},
          {"block-logits", "attention", block_logits, gpt, kFp16}};
}

}  // namespace binade::faults
