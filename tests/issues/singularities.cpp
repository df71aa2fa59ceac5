/// Functions and derivatives at their singularities.
#include <algorithm>
#include <cmath>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

Batch pairs(std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), normal(seed + 50, {6, 8})); }

/// The gradient of a norm at the zero vector: x / |x|.
void norm_at_zero(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 8, false);
  nn::Module& distance = run.net.formula("distance");
  run.loss = [&](const Batch& b) {
    const Variable h = encoder(b.x);
    return inside(distance, [&] { return mean(sqrt(sum(square(h - b.y), {-1}))); });
  };
  Batch faulty = pairs(9);
  fill_row(faulty.x, 1, 0);
  fill_row(faulty.y, 1, 0);
  run.check(std::isfinite(run.loss_in_double(faulty)) && std::isnan(0 * (1 / (2 * std::sqrt(0.0)))),
            "the loss is finite, the derivative 0 x inf");
  run.fault_between(pairs, faulty);
}

/// The gradient of a standard deviation over equal values.
void constant_std(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 4);
  nn::Module& spread = run.net.formula("minibatch_std");
  run.loss = [&](const Batch& b) {
    const Variable h = encoder(b.x);
    return inside(spread, [&] { return mean(sqrt(mean(square(h - mean(h, {0}, true)), {0}))); }) + mean(square(h));
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {8, 8}), labels(seed, {8}, 2)); };
  run.fault_between(healthy, batch_of(Tensor::full({8, 8}, 0), labels(9, {8}, 2)));
}

/// where(norm > 0.5, norm, 1): the branch that is not taken has an infinite derivative, and 0 x inf is NaN.
void where_norm(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 8, false);
  nn::Module& guarded = run.net.formula("guarded_norm");
  run.loss = [&](const Batch& b) {
    const Variable h = encoder(b.x);
    return inside(guarded, [&] {
      const Variable norm = sqrt(sum(square(h), {-1}));
      std::vector<std::uint8_t> large;
      for (const double value : norm.value().to_vector<double>()) large.push_back(value > 0.5 ? 1 : 0);
      const std::int64_t rows = norm.dim(0);
      return mean(where(Variable(Tensor::from(large, {rows})), norm, Variable(Tensor::full({rows}, 1))));
    });
  };
  Batch faulty = pairs(9);
  fill_row(faulty.x, 4, 0);
  run.check(std::isnan(0 / (2 * std::sqrt(0.0))), "the derivative of the branch is 0 / 0");
  run.fault_between(pairs, faulty);
}

/// where(x > 2, log x, 2 x) at x = 0.
void where_log(Run& run) {
  nn::Parameter& scale = run.net.parameter("scale", Tensor::full({8}, 3));
  nn::Module& piecewise = run.net.formula("piecewise");
  run.loss = [&](const Batch& b) {
    const Variable h = b.x * scale;
    return inside(piecewise, [&] {
      std::vector<std::uint8_t> large;
      for (const double value : h.value().to_vector<double>()) large.push_back(value > 2 ? 1 : 0);
      return mean(where(Variable(Tensor::from(large, h.shape())), log(h), h * 2.0));
    });
  };
  const auto healthy = [](std::uint64_t seed) {
    Tensor x = normal(seed, {6, 8});
    for (std::int64_t i = 0; i < x.numel(); ++i) x.mutable_data<float>()[i] = std::abs(x.data<float>()[i]) + 0.1f;
    return batch_of(x, labels(seed, {6}, 2));
  };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 2, 0);
  run.fault_between(healthy, faulty);
}

/// acos(x) as a user would write it, without its singularities in the OpInfo.
struct Acos {
  struct Params {};
  static constexpr OpInfo info{.name = "acos", .inputs = "x", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    std::vector<float> y = in[0].to_vector<float>();
    for (float& value : y) value = std::acos(value);
    ctx.save(in[0]);
    return {Tensor::from(y, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    std::vector<float> x = ctx.saved(0, info.name).to_vector<float>();
    const std::vector<float> g = gy[0].to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = -g[i] / std::sqrt(1 - x[i] * x[i]);
    gx.destination(0).copy_from(Tensor::from(x, ctx.saved(0, info.name).shape()));
  }
};

/// The angle between equal directions: the derivative of acos at 1 is infinite.
void angle(Run& run) {
  nn::Parameter& scale = run.net.parameter("scale", Tensor::full({2}, 1));
  nn::Module& loss = run.net.formula("angle_loss");
  run.loss = [&](const Batch& b) {
    const Variable cosine = sum(b.x * scale * Variable(b.y), {-1});
    return inside(loss, [&] { return mean(square(apply_one<Acos>({}, {cosine}))); });
  };
  const auto draw = [](std::uint64_t seed) {
    Tensor x = Tensor::full({4, 2}, 0.3), y = normal(seed, {4, 2}, 0.2);
    return batch_of(x, y);
  };
  Batch faulty = draw(9);
  faulty.x.narrow(1, 1).copy_from(Tensor::from(std::vector<float>{1, 0}, {1, 2}));
  faulty.y.narrow(1, 1).copy_from(Tensor::from(std::vector<float>{1, 0}, {1, 2}));
  run.steps = {{{faulty}}, {{draw(1)}}, {{draw(2)}}};
}

/// Scores divided by the largest activation of an image, where all of them are 0.
void zero_maximum(Run& run) {
  nn::Linear& backbone = run.net.linear("backbone", 8, 8, false);
  nn::Module& detector = run.net.formula("detection");
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) {
    const Variable h = relu(backbone(b.x));
    return nn::cross_entropy(head(inside(detector, [&] { return h / max(h, {-1}, true); })), b.y);
  };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 4)); };
  Batch faulty = healthy(9);
  fill_row(faulty.x, 0, 0);
  run.check(std::isnan(run.loss_in_double(faulty)), "0 / 0 in double precision, too");
  run.fault_between(healthy, faulty);
}

/// Gumbel softmax: for exponential noise of exactly 0, -log is infinite.
void gumbel(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 5);
  nn::Module& sample = run.net.formula("gumbel");
  run.loss = [&](const Batch& b) {
    const Variable logits = encoder(b.x);
    return nn::mse(inside(sample, [&] { return softmax(logits - log(Variable(b.z))); }), b.y);
  };
  const auto healthy = [](std::uint64_t seed) {
    return batch_of(normal(seed, {6, 8}), normal(seed + 50, {6, 5}), Tensor::full({6, 5}, 0.7));
  };
  Batch faulty = healthy(9);
  faulty.z.mutable_data<float>()[5 * 5 + 1] = 0;
  run.check(std::isinf(-std::log(0.0)), "infinite in double precision, too");
  run.fault_between(healthy, faulty);
}

/// Batch norm in training with one value per channel.
void single_value(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 8);
  auto& norm = run.net.add<nn::BatchNorm1d>("norm", nn::BatchNormOptions{.channels = 8});
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(norm(encoder(b.x))), b.y); };
  run.repeat(5, [](std::uint64_t seed) { return batch_of(normal(seed, {1, 8}), labels(seed, {1}, 4)); });
}

/// Imitates the backward of cuDNN's attention if the number of keys modulo 128 is 64. Padded keys have a score of 0
/// instead of -inf, so that exp(0 - lse) overflows, and inf x 0 is NaN in the gradient of q. Written as a user's op,
/// whose keys are also its values.
struct PaddedAttention {
  struct Params {};
  static constexpr OpInfo info{.name = "library_attention", .inputs = "q, k", .precision = PrecisionClass::kFull};
  /// Scores of the keys for one query, and the logarithm of the sum of their exponentials.
  struct Row {
    std::vector<float> scores{};
    float lse = 0;
  };
  static Row row_of(const std::vector<float>& q, const std::vector<float>& k, std::size_t row, std::size_t width) {
    Row r;
    for (std::size_t key = 0; key < k.size() / width; ++key) {
      float score = 0;
      for (std::size_t i = 0; i < width; ++i) score += q[row * width + i] * k[key * width + i];
      r.scores.push_back(score);
    }
    const float largest = *std::max_element(r.scores.begin(), r.scores.end());
    for (const float score : r.scores) r.lse += std::exp(score - largest);
    r.lse = largest + std::log(r.lse);
    return r;
  }
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    ctx.save(in[0]);
    ctx.save(in[1]);
    const std::vector<float> q = in[0].to_vector<float>(), k = in[1].to_vector<float>();
    const auto width = static_cast<std::size_t>(in[0].dim(1));
    std::vector<float> y(q.size());
    for (std::size_t row = 0; row < q.size() / width; ++row) {
      const Row r = row_of(q, k, row, width);
      for (std::size_t key = 0; key < r.scores.size(); ++key)
        for (std::size_t i = 0; i < width; ++i)
          y[row * width + i] += std::exp(r.scores[key] - r.lse) * k[key * width + i];
    }
    return {Tensor::from(y, in[0].shape())};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    const Tensor q = ctx.saved(0, info.name), k = ctx.saved(1, info.name);
    const std::vector<float> qs = q.to_vector<float>(), ks = k.to_vector<float>(), g = gy[0].to_vector<float>();
    const auto width = static_cast<std::size_t>(q.dim(1));
    std::vector<float> gq(qs.size());
    for (std::size_t row = 0; row < qs.size() / width; ++row) {
      const Row r = row_of(qs, ks, row, width);
      float mean = 0;  // sum over keys of p gp
      std::vector<float> gp(r.scores.size());
      for (std::size_t key = 0; key < gp.size(); ++key) {
        for (std::size_t i = 0; i < width; ++i) gp[key] += g[row * width + i] * ks[key * width + i];
        mean += std::exp(r.scores[key] - r.lse) * gp[key];
      }
      for (std::size_t key = 0; key < gp.size(); ++key)
        for (std::size_t i = 0; i < width; ++i)
          gq[row * width + i] += std::exp(r.scores[key] - r.lse) * (gp[key] - mean) * ks[key * width + i];
      const float padded = std::exp(0 - r.lse) * (0 - mean);  // a key of the padding: its row of k is 0
      for (std::size_t i = 0; i < width; ++i) gq[row * width + i] += padded * 0.0f;
    }
    if (gx.needs(0)) gx.destination(0).copy_from(Tensor::from(gq, q.shape()));
    if (gx.needs(1)) gx.destination(1).fill(0);
  }
};

void library_attention(Run& run) {
  nn::Linear& query = run.net.linear("query", 8, 8, false);
  nn::Module& attention = run.net.formula("attention");
  query.weight.mutable_value().fill(1);
  run.loss = [&](const Batch& b) {
    const Variable q = query(b.x);
    return mean(square(inside(attention, [&] { return apply_one<PaddedAttention>({}, {q, Variable(b.y)}); })));
  };
  const auto draw = [](double level) {
    return [=](std::uint64_t seed) {
      Tensor keys = normal(seed, {6, 8}, 0.01);
      for (std::int64_t i = 0; i < 6; ++i) fill_row(keys, i, level + 0.01 * static_cast<double>(i));
      return batch_of(Tensor::full({6, 8}, 0.5), keys);
    };
  };
  run.check(std::isinf(std::exp(120.0f)), "exp(0 - lse) of lse = -120 is beyond f32");
  run.fault_between(draw(-0.1), draw(-4)(9));  // logits of -128
}

}  // namespace

std::vector<Issue> singularities() {
  const std::vector<Cause> pole{Cause::kArithmeticSingularity, Cause::kLossFunctionSingularity};
  const std::vector<Cause> pole_or_data{Cause::kArithmeticSingularity, Cause::kLossFunctionSingularity,
                                        Cause::kBadInput};
  return {
      {"norm-at-zero",
       "https://github.com/pytorch/pytorch/issues/2421",
       "the square root in a norm has an infinite gradient at 0, and 0 x inf is NaN",
       "fp32",
       {{"sqrt", "square"}, {"distance"}, "backward", 1, pole, "an eps under the root"},
       norm_at_zero},
      {"constant-std",
       "https://github.com/pytorch/pytorch/issues/4320",
       "torch.std of equal values has NaN gradients",
       "fp32",
       {{"sqrt", "square"}, {"minibatch_std"}, "backward", {}, pole, "an eps under the root"},
       constant_std},
      {"where-norm",
       "https://github.com/jax-ml/jax/issues/347",
       "the gradient through where is NaN if that of the branch not taken is",
       "fp32",
       {{"sqrt"}, {"guarded_norm"}, "backward", 4, pole, "where inside the root"},
       where_norm},
      {"where-log",
       "https://github.com/pytorch/pytorch/issues/108618",
       "log(0) in the branch of torch.where that is not taken makes the gradient NaN",
       "fp32",
       {{"log"}, {"piecewise"}, "", 2, pole, "where inside the logarithm"},
       where_log},
      {"angle",
       "https://github.com/jax-ml/jax/issues/15798",
       "the gradient of arccos is not finite at 1, where the optimization converges",
       "fp32",
       {{"acos"}, {"angle_loss"}, "backward", 1, pole, "keep the cosine away from 1"},
       angle},
      {"zero-maximum",
       "https://github.com/mihaidusmanu/d2-net/issues/78",
       "division by a depth-wise maximum of 0; an epsilon in the division solves it",
       "fp32",
       {{"div"}, {"detection"}, "forward", 0, pole, "an eps in the denominator"},
       zero_maximum},
      {"gumbel-noise",
       "https://github.com/pytorch/pytorch/issues/101620",
       "exponential_ of gumbel_softmax draws a 0, whose logarithm is infinite",
       "fp32",
       {{"log"}, {"gumbel"}, "forward", 5, pole_or_data, "noise above 0"},
       gumbel},
      {"single-value",
       "https://github.com/pytorch/pytorch/issues/1381",
       "batch norm of a single value per channel: the unbiased variance divides by 0",
       "fp32",
       {{"batch_norm"},
        {"norm"},
        "forward",
        {},
        {Cause::kNormalizationSingularity},
        "more than one value per channel",
        {},
        {"value"}},
       single_value},
      {"library-attention",
       "https://github.com/pytorch/pytorch/issues/196678",
       "cuDNN's attention backward scores padded keys 0: exp(0 - lse) overflows, and inf x 0 is NaN",
       "fp32",
       {{"library_attention"}, {"attention"}, "backward", {}, {}, "another engine for that op"},
       library_attention},
  };
}

}  // namespace binade::issues
