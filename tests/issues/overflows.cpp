/// Values beyond the range of f16, and of f32.
#include <cmath>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

std::function<Batch(std::uint64_t)> rows_of(std::int64_t width, double scale = 1) {
  return [=](std::uint64_t seed) { return batch_of(normal(seed, {6, width}, scale), labels(seed, {6}, 4)); };
}

/// The feed-forward block of T5: the product with `wo` is beyond 65504.
void t5_feed_forward(Run& run) {
  auto& norm = run.net.add<nn::LayerNorm>("norm", nn::LayerNormOptions{.dim = 16});
  nn::Linear& wi = run.net.linear("ffn.wi", 16, 64, false);
  nn::Linear& wo = run.net.linear("ffn.wo", 64, 16, false);
  auto& last = run.net.add<nn::LayerNorm>("last", nn::LayerNormOptions{.dim = 16});
  nn::Linear& head = run.net.linear("head", 16, 4);
  wi.weight.mutable_value().copy_from(normal(5, {64, 16}, 8));
  wo.weight.mutable_value().fill(100);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(last(wo(relu(wi(norm(b.x)))))), b.y); };
  const Batch probe = rows_of(16)(1);
  const double largest = max(wo(relu(wi(norm(probe.x))))).item();
  run.check(largest > 65520 && largest < 1e30, "the product is beyond f16, and within f32");
  run.repeat(4, rows_of(16));
}

/// LongT5: hidden state and feed-forward output fit into f16, their sum does not.
void residual_sum(Run& run) {
  nn::Linear& embed = run.net.linear("embed", 16, 16, false);
  nn::Linear& ffn = run.net.linear("ffn", 16, 16, false);
  nn::Module& block = run.net.formula("block");
  auto& last = run.net.add<nn::LayerNorm>("last", nn::LayerNormOptions{.dim = 16});
  nn::Linear& head = run.net.linear("head", 16, 4);
  Tensor large = Tensor::full({16, 16}, 2500);
  embed.weight.mutable_value().copy_from(large);
  ffn.weight.mutable_value().copy_from(large);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) {
    const Variable h = embed(b.x), f = ffn(b.x);
    return nn::cross_entropy(head(last(inside(block, [&] { return h + f; }))), b.y);
  };
  const auto draw = [](std::uint64_t seed) { return batch_of(Tensor::full({6, 16}, 1), labels(seed, {6}, 4)); };
  run.check(16 * 2500 < 65504 && 2 * 16 * 2500 > 65520, "40000 fits in f16, 80000 does not");
  run.repeat(4, draw);
}

/// Attention composed in half precision: the largest product of queries and keys is 784449.
void attention_logits(Run& run) {
  nn::Linear& query = run.net.linear("attention.query", 8, 8, false);
  nn::Linear& key = run.net.linear("attention.key", 8, 8, false);
  nn::Module& attention = run.net.formula("attention");
  nn::Linear& head = run.net.linear("head", 8, 4);
  query.weight.mutable_value().fill(60);
  key.weight.mutable_value().fill(50);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) {
    const Variable q = query(b.x), k = key(b.x);
    const Variable y = inside(attention, [&] {
      return matmul(softmax(matmul(q, k, {.transpose_b = true}) * (1 / std::sqrt(8.0))), b.x);
    });
    return nn::cross_entropy(head(mean(y, {1})), b.y);
  };
  const auto draw = [](std::uint64_t seed) { return batch_of(normal(seed, {4, 5, 8}, 0.8), labels(seed, {4}, 4)); };
  const Batch probe = draw(1);
  const double largest = max(abs(matmul(query(probe.x), key(probe.x), {.transpose_b = true}))).item();
  run.check(largest > 65520 && largest < 1e30, "the logits are beyond f16, and within f32");
  run.repeat(4, draw);
}

/// A mean that adds up in f16 before it divides.
void half_mean(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 64);
  nn::Module& pool = run.net.formula("pool");
  head.bias.mutable_value().fill(30);
  run.options.precision = half_in("pool");
  run.loss = [&](const Batch& b) {
    const Variable h = head(b.x);
    return inside(pool, [&] { return sum(h) / 4096.0; });
  };
  run.check(std::isinf(to_half(64 * 64 * 30)) && 30 < 65504, "the sum is infinite in f16, the mean is 30");
  run.repeat(4, [](std::uint64_t seed) { return batch_of(normal(seed, {64, 8}, 0.1), labels(seed, {64}, 4)); });
}

/// The encoder of the SDXL VAE: activations of a convolution are beyond 65504.
void vae_encoder(Run& run) {
  auto& first = run.net.add<nn::Conv2d>("encoder.first", nn::Conv2dOptions{.in = 3, .out = 8, .padding = 1});
  auto& second = run.net.add<nn::Conv2d>("encoder.second", nn::Conv2dOptions{.in = 8, .out = 8, .padding = 1});
  auto& norm = run.net.add<nn::GroupNorm>("encoder.norm", nn::GroupNormOptions{.groups = 2, .channels = 8});
  nn::Linear& head = run.net.linear("head", 8, 4);
  first.weight.mutable_value().fill(20);
  second.weight.mutable_value().fill(20);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(mean(norm(second(first(b.x))), {1, 2})), b.y); };
  const auto draw = [](std::uint64_t seed) {
    Tensor images = Tensor::full({4, 8, 8, 3}, 0.5);
    return batch_of(images, labels(seed, {4}, 4));
  };
  const double largest = max(second(first(draw(1).x))).item();
  run.check(largest > 65520 && largest < 1e30, "the convolution is beyond f16, and within f32");
  run.repeat(4, draw);
}

/// A mixture of experts: one expert's product overflows before the routing weight scales it back into range.
void expert(Run& run) {
  nn::Linear& router = run.net.linear("router", 8, 2, false);
  nn::Linear& small = run.net.linear("experts.0.down", 8, 8, false);
  nn::Linear& large = run.net.linear("experts.1.down", 8, 8, false);
  nn::Module& moe = run.net.formula("moe");
  nn::Linear& head = run.net.linear("head", 8, 4);
  Tensor weights = Tensor::full({2, 8}, 0.3);
  fill_row(weights, 1, -0.3);
  router.weight.mutable_value().copy_from(weights);
  large.weight.mutable_value().fill(10000);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) {
    const Variable p = softmax(router(b.x)), y0 = small(b.x), y1 = large(b.x);
    const Variable y = inside(moe, [&] { return narrow(p, 1, 0, 1) * y0 + narrow(p, 1, 1, 1) * y1; });
    return nn::cross_entropy(head(y * 1e-3), b.y);
  };
  run.check(8 * 10000 > 65520 && 8 * 10000 / (1 + std::exp(4.8)) < 65504, "only the unscaled product is beyond f16");
  run.repeat(4, [](std::uint64_t seed) { return batch_of(Tensor::full({6, 8}, 1), labels(seed, {6}, 4)); });
}

/// A selective scan in f16, h = a h + b: the state grows beyond 65504.
void selective_scan(Run& run) {
  nn::Linear& input = run.net.linear("input", 8, 8, false);
  nn::Module& scan = run.net.formula("scan");
  nn::Linear& head = run.net.linear("head", 8, 4);
  input.weight.mutable_value().fill(2500);
  run.options.precision = half_in("scan");
  run.loss = [&](const Batch& b) {
    const Variable u = input(b.x);  // (B, T, 8)
    const Variable y = inside(scan, [&] {
      Variable h = narrow(u, 1, 0, 1);
      for (std::int64_t t = 1; t < 6; ++t) h = h * 0.95 + narrow(u, 1, t, 1);
      return h;
    });
    return nn::cross_entropy(head(reshape(y, {-1, 8}) * 1e-4), b.y);
  };
  run.check(20000 * (1 - std::pow(0.95, 6)) / 0.05 > 65520, "the state after six steps is beyond f16");
  run.repeat(4, [](std::uint64_t seed) { return batch_of(Tensor::full({6, 6, 8}, 1), labels(seed, {6}, 4)); });
}

/// A convolution overflows before a batch norm. In PyTorch, the running statistics stay NaN although the step is
/// skipped.
void batch_norm_statistics(Run& run) {
  auto& conv = run.net.add<nn::Conv2d>("conv", nn::Conv2dOptions{.in = 4, .out = 8});
  auto& norm = run.net.add<nn::BatchNorm1d>("norm", nn::BatchNormOptions{.channels = 8});
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(mean(norm(conv(b.x)), {1, 2})), b.y); };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {4, 5, 5, 4}), labels(seed, {4}, 4)); };
  Batch faulty = batch_of(normal(9, {4, 5, 5, 4}, 15000), labels(9, {4}, 4));
  conv.weight.mutable_value().copy_from(normal(3, {8, 3, 3, 4}));
  const double input = max(abs(Variable(faulty.x))).item(), output = max(abs(conv(faulty.x))).item();
  run.check(input < 65504 && output > 65520 && output < 1e30, "inputs fit in f16, products do not");
  run.fault_between(healthy, faulty);
}

/// data.half() * 100000: the batch itself does not fit in f16.
void half_input(Run& run) {
  auto& conv = run.net.add<nn::Conv2d>("conv", nn::Conv2dOptions{.in = 4, .out = 8});
  auto& norm = run.net.add<nn::BatchNorm1d>("norm", nn::BatchNormOptions{.channels = 8});
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.options.precision = amp::Policy::fp16();
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(mean(norm(conv(b.x)), {1, 2})), b.y); };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {4, 5, 5, 4}), labels(seed, {4}, 4)); };
  run.check(std::isinf(to_half(100000)), "100000 is infinite in f16");
  run.fault_between(healthy, batch_of(normal(9, {4, 5, 5, 4}, 100000), labels(9, {4}, 4)));
}

}  // namespace

std::vector<Issue> overflows() {
  const std::vector<Cause> overflow{Cause::kActivationOverflow};
  return {
      {"t5-feed-forward",
       "https://github.com/huggingface/transformers/issues/5651",
       "self.wo(h) of T5DenseReluDense gives 66246, over the maximum of fp16",
       "fp16",
       {{"linear"}, {"ffn.wo"}, "forward", {}, overflow, "f32 for ffn.wo"},
       t5_feed_forward},
      {"residual-sum",
       "https://github.com/huggingface/transformers/pull/19229",
       "adding the previous hidden states to the feed-forward output overflows in fp16",
       "fp16",
       {{"add"}, {"block"}, "forward", {}, overflow, "f32 for the sum"},
       residual_sum},
      {"attention-logits",
       "https://github.com/pytorch/pytorch/issues/119131",
       "q k^T of the math backend reaches 784449 in fp16",
       "fp16",
       {{"matmul"},
        {"attention"},
        "forward",
        {},
        {Cause::kAttentionLogitOverflow},
        "f32 for the logits, or scale first"},
       attention_logits},
      {"half-mean",
       "https://github.com/tracel-ai/burn/issues/4770",
       "mean() of f16 divides a sum that overflowed in f16",
       "fp16",
       {{"sum"}, {"pool"}, "forward", {}, {Cause::kReductionOverflow}, "f32 for the sum"},
       half_mean},
      {"vae-encoder",
       "https://github.com/huggingface/diffusers/issues/7188",
       "the SDXL VAE needs full precision: its fp16 activations overflow",
       "fp16",
       {{"conv2d"}, {"encoder.second"}, "forward", {}, overflow, "f32 for the convolution"},
       vae_encoder},
      {"expert",
       "https://github.com/ROCm/hip-ep/pull/672",
       "one expert's raw down_proj exceeds the fp16 maximum before the routing weight scales it back",
       "fp16",
       {{"linear"}, {"experts.1.down"}, "forward", {}, overflow, "f32 for the expert's product"},
       expert},
      {"selective-scan",
       "https://github.com/MzeroMiko/VMamba/issues/138",
       "the selective scan in fp16 overflows; it runs in fp32 since",
       "fp16",
       {{"add", "mul_scalar"}, {"scan"}, "forward", {}, overflow, "f32 for the scan"},
       selective_scan},
      {"batch-norm-statistics",
       "https://github.com/pytorch/pytorch/issues/90342",
       "a convolution overflows under AMP, and the running statistics of the batch norm after it stay inf and NaN",
       "fp16",
       {{"conv2d"}, {"conv"}, "forward", {}, overflow, "f32 for the convolution; statistics unchanged"},
       batch_norm_statistics},
      {"half-input",
       "https://github.com/pytorch/pytorch/issues/88474",
       "data.half() * 100000 is inf before the first layer reads it",
       "fp16",
       {{}, {}, "input", {}, {Cause::kBadInput, Cause::kActivationOverflow}, "scale the input; statistics unchanged"},
       half_input},
  };
}

}  // namespace binade::issues
