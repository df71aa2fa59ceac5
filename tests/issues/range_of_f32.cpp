/// Values beyond the range of f32: exponentials of large numbers, and updates that grow without bound.
#include <cmath>
#include <numeric>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

/// CLIP's learned temperature: exp(logit_scale) without a bound.
void logit_scale(Run& run) {
  nn::Linear& image = run.net.linear("image", 8, 4);
  nn::Linear& text = run.net.linear("text", 8, 4);
  nn::Parameter& scale = run.net.parameter("logit_scale", Tensor::full({1}, 90));
  nn::Module& clip = run.net.formula("clip");
  run.loss = [&](const Batch& b) {
    const Variable i = image(b.x), t = text(b.y);
    const Variable logits = inside(clip, [&] { return matmul(i, t, {.transpose_b = true}) * exp(scale); });
    std::vector<std::int32_t> own(static_cast<std::size_t>(b.x.dim(0)));
    std::iota(own.begin(), own.end(), 0);
    return nn::cross_entropy(logits, Tensor::from(own, {b.x.dim(0)}));
  };
  run.check(std::isfinite(std::exp(90.0)) && std::isinf(std::exp(90.0f)), "exp(90) is beyond f32");
  run.repeat(3, [](std::uint64_t seed) { return batch_of(normal(seed, {4, 8}), normal(seed + 50, {4, 8})); });
}

/// Policy optimization: a token with the ratio exp(1000) is filtered by a factor of 0, and inf x 0 is NaN.
void filtered_ratio(Run& run) {
  nn::Linear& policy = run.net.linear("policy", 8, 1);
  nn::Module& loss = run.net.formula("policy_loss");
  run.loss = [&](const Batch& b) {
    const Variable log_probability = policy(b.x);
    return inside(loss, [&] { return -mean(exp(log_probability - Variable(b.y)) * Variable(b.z)); });
  };
  const auto healthy = [](std::uint64_t seed) {
    return batch_of(normal(seed, {6, 8}), normal(seed + 50, {6, 1}, 0.1), Tensor::full({6, 1}, 1));
  };
  Batch faulty = healthy(9);
  fill_row(faulty.y, 3, -1000);
  fill_row(faulty.z, 3, 0);
  run.check(std::isnan(std::exp(1000.0) * 0), "exp(1000) x 0 is NaN in double precision, too");
  run.fault_between(healthy, faulty);
}

/// An unbounded log-variance of a VAE: exp(log var / 2) and KL.
void log_variance(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 8);
  nn::Module& latent = run.net.formula("latent");
  nn::Linear& decoder = run.net.linear("decoder", 4, 8);
  for (std::int64_t i = 4; i < 8; ++i) fill_row(encoder.weight.mutable_value(), i, 1);
  run.loss = [&](const Batch& b) {
    const Variable code = encoder(b.x), mu = narrow(code, 1, 0, 4), log_var = narrow(code, 1, 4, 4);
    const Variable kl = inside(latent, [&] { return mean(exp(log_var) + square(mu) - log_var - 1.0) * 0.5; });
    return nn::mse(decoder(mu), b.x) + kl;
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}, 0.5), labels(seed, {6}, 2)); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 2, 12);  // a feature that was not normalized
  run.check(std::isfinite(run.loss_in_double(faulty)), "finite in double precision");
  run.fault_between(healthy, faulty);
}

/// Softmax without subtracting the largest logit: exp(378) / sum.
void plain_softmax(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 4, false);
  nn::Module& softmax = run.net.formula("softmax");
  head.weight.mutable_value().copy_from(normal(3, {4, 8}, 100));
  run.loss = [&](const Batch& b) {
    const Variable logits = head(b.x);
    const Variable p = inside(softmax, [&] {
      const Variable e = exp(logits);
      return e / sum(e, {-1}, true);
    });
    return nn::mse(p, b.y);
  };
  const auto draw = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), normal(seed + 50, {6, 4})); };
  run.check(max(head(draw(1).x)).item() > 89, "a logit is beyond the range of exp in f32");
  run.repeat(3, draw);
}

/// The learning rate for a large batch is used with a small batch, without clipping: weights grow until products
/// overflow.
void learning_rate(Run& run) {
  nn::Linear& first = run.net.linear("first", 8, 32);
  nn::Linear& second = run.net.linear("second", 32, 32);
  nn::Linear& head = run.net.linear("head", 32, 1);
  run.loss = [&](const Batch& b) { return nn::mse(head(relu(second(relu(first(b.x))))), b.y); };
  run.optimizer = [](Net& net) {
    return std::make_unique<optim::Sgd>(net, optim::SgdOptions{.lr = 3, .momentum = 0.9});
  };
  run.repeat(40, [](std::uint64_t seed) { return batch_of(normal(seed, {8, 8}), normal(seed + 50, {8, 1}, 3)); });
}

}  // namespace

std::vector<Issue> range_of_f32() {
  const std::vector<Cause> overflow{Cause::kActivationOverflow, Cause::kBadInput};
  return {
      {"logit-scale",
       "https://github.com/openai/CLIP/issues/46",
       "logit_scale.exp() must be clipped at 100; without, scaling the logits is unstable and overflows",
       "fp32",
       {{"exp"}, {"clip"}, "forward", {}, {Cause::kActivationOverflow}, "clamp logit_scale"},
       logit_scale},
      {"filtered-ratio",
       "https://github.com/OpenRLHF/OpenRLHF/pull/1314",
       "the ratio of a stale token overflows to inf, and filtering it by multiplication gives inf x 0",
       "fp32",
       {{"exp"}, {"policy_loss"}, "forward", 3, overflow, "clamp the log-ratio, or choose with where"},
       filtered_ratio},
      {"log-variance",
       "https://github.com/vanderschaarlab/synthcity/issues/331",
       "unbounded log variances of the encoder overflow when exponentiated",
       "fp32",
       {{"exp"}, {"latent"}, "forward", 2, overflow, "clamp the log variance"},
       log_variance},
      {"plain-softmax",
       "https://github.com/uTensor/uTensor/issues/175",
       "exp() of a logit of 378 is inf; the softmax must subtract the maximum",
       "fp32",
       {{"exp"}, {"softmax"}, "forward", {}, overflow, "the built-in softmax"},
       plain_softmax},
      {"learning-rate",
       "https://github.com/open-mmlab/mmdetection/issues/1710",
       "the learning rate is too large; a smaller one or a longer warm-up is stable",
       "fp32",
       {.classes = {Cause::kGradientExplosion},
        .remedy = "a lower learning rate, warm-up, clipping",
        .warnings = {amp::WarningKind::kDivergence, amp::WarningKind::kGradients}},
       learning_rate},
  };
}

}  // namespace binade::issues
