#include "tests/amp/preflight_cases.h"

#include <cmath>
#include <limits>

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/optim/adam.h"
#include "binade/optim/lion.h"
#include "binade/optim/sgd.h"
#include "tests/amp/toy.h"

namespace binade::amp::preflight_cases {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Variable input() { return toy::random({8, 6}, 77); }
Variable features(Features& m) { return m(input()); }
Tensor binary(const Shape& shape) {
  Tensor t = toy::random(shape, 5);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.mutable_data<float>()[i] = t.at(i) > 0 ? 1.0f : 0.0f;
  return t;
}
Tensor labels(std::int32_t value = 3) { return Tensor::full({8}, value, DType::i32); }
Variable one_hot() {
  Tensor t = Tensor::zeros({8, 16});
  for (std::int64_t i = 0; i < 8; ++i) t.mutable_data<float>()[i * 16 + i] = 1;
  return t;
}

/// (8, 8) scores in the policy's dtype.
Variable scores(Features& m) {
  const Variable x = features(m);
  return matmul(x, x, {.transpose_b = true});
}
/// A causal mask: `hidden` above the diagonal, 0 elsewhere.
Tensor causal(double hidden, DType dtype = DType::f32) {
  Tensor mask = Tensor::zeros({8, 8});
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = i + 1; j < 8; ++j) mask.mutable_data<float>()[i * 8 + j] = static_cast<float>(hidden);
  return mask.to(dtype);
}
Tensor with_masked_row(Tensor mask, double hidden) {
  for (std::int64_t j = 0; j < 8; ++j) mask.mutable_data<float>()[3 * 8 + j] = static_cast<float>(hidden);
  return mask;
}

Variable centered(const Variable& x) { return x - mean(x, {-1}, true); }
Variable variance(const Variable& x) { return mean(square(centered(x)), {-1}, true); }
Variable plain(Features& m) { return mean(square(features(m))); }

TrainerOptions in(Policy policy) { return {.precision = std::move(policy)}; }
TrainerOptions at_scale(Policy policy, LossScaleOptions scale) {
  return {.precision = std::move(policy), .loss_scale = scale};
}

Policy nearest_bf16() {
  Policy policy = Policy::pure_bf16();
  policy.stochastic_rounding = false;
  return policy;
}

}  // namespace

std::vector<Case> planted() {
  const Policy fp16 = Policy::fp16();
  std::vector<Case> cases{
      {"bce of a sigmoid", "bce-after-sigmoid", "bce",
       [](Features& m) {
         return bce(sigmoid(features(m)), binary({8, 16}));
       }},
      {"bce of a sigmoid that is clamped by less than f32 can tell from 1", "bce-after-sigmoid", "bce",
       [](Features& m) {
         return bce(clamp(sigmoid(features(m)), 1e-9, 1 - 1e-9), binary({8, 16}));
       }},
      {"bce of a sigmoid clamped by less than f16 can tell from 1", "bce-after-sigmoid", "bce",
       [](Features& m) {
         return bce(clamp(sigmoid(features(m)), 1e-5, 1 - 1e-5), binary({8, 16}));
       },
       in(fp16)},
      {"log of a sigmoid", "log-after-sigmoid", "log", [](Features& m) { return -mean(log(sigmoid(features(m)))); }},
      {"log of 1 - sigmoid", "log-after-sigmoid", "log",
       [](Features& m) { return -mean(log(1.0 - sigmoid(features(m)))); }},
      {"log of a softmax", "log-after-softmax", "log",
       [](Features& m) { return -mean(log(softmax(features(m))) * one_hot()); }},
      {"log of a softmax in f16 with an eps of 1e-8", "log-after-softmax", "log",
       [](Features& m) { return -mean(log(softmax(features(m)) + 1e-8) * one_hot()); },
       in(fp16.with("softmax", DType::f16))},
      {"log of a ReLU", "log-pole", "log", [](Features& m) { return mean(log(relu(features(m)))); }},
      {"log of a product", "log-pole", "log", [](Features& m) { return mean(log(features(m))); }},
      {"log of a ReLU in f16 with an eps of 1e-8", "log-pole", "log",
       [](Features& m) { return mean(log(relu(features(m)) + 1e-8)); }, in(fp16)},
      {"where that hides a log of everything", "log-pole", "log",
       [](Features& m) {
         const Variable x = features(m);
         return mean(where(binary({8, 16}).to(DType::u8), log(x), Tensor::full({8, 16}, 0.0)));
       }},
      {"a norm without eps", "sqrt-pole", "sqrt",
       [](Features& m) { return mean(sqrt(sum(square(features(m)), {-1}))); }},
      {"root mean square error", "sqrt-pole", "sqrt", [](Features& m) { return sqrt(mse(features(m), one_hot())); }},
      {"standardization without eps", "division-pole", "div",
       [](Features& m) {
         const Variable x = features(m);
         return mean(square(centered(x) / sqrt(variance(x))));
       }},
      {"division by a sum of absolute values", "division-pole", "div",
       [](Features& m) {
         const Variable x = features(m);
         return mean(square(x / sum(abs(x), {-1}, true)));
       }},
      {"a softmax by hand, nothing subtracted", "division-pole", "div",
       [](Features& m) {
         const Variable e = exp(features(m));
         return mean(square(e / sum(e, {-1}, true)));
       }},
      {"division with an eps that f32 squares away", "division-pole", "div",
       [](Features& m) {
         const Variable x = features(m);
         return mean(x / (sum(square(x), {-1}, true) + 1e-30));
       }},
      {"one over a product", "division-pole", "scalar_div", [](Features& m) { return mean(1.0 / features(m)); }},
      {"Dice by hand without smoothing", "division-pole", "div",
       [](Features& m) {
         const Variable p = sigmoid(features(m)), t = binary({8, 16});
         return 1.0 - 2.0 * sum(p * t) / (sum(p) + sum(t));
       }},
      {"mean over the visible, which may be none", "division-pole", "div",
       [](Features& m) {
         return sum(square(features(m)) * Variable(binary({8, 16}))) / sum(Variable(binary({8, 16})));
       }},
      {"a negative power of a square", "pow-pole", "pow",
       [](Features& m) { return mean(pow(sum(square(features(m)), {-1}), -0.5)); }},
      {"one-pass variance", "one-pass-variance", "sqrt",
       [](Features& m) { return mean(sqrt(one_pass(features(m)) + 1e-5)); }},
      {"a user's op at its singularity", "pole", "shifted",
       [](Features& m) { return mean(apply_one<Shifted>({}, {sigmoid(features(m))})); }},
      {"layer norm without eps", "eps-vanishes", "layer_norm",
       [](Features& m) { return mean(square(layer_norm(features(m), {}, {}, 0))); }},
      {"layer norm in f16 with an eps of 1e-8", "eps-vanishes", "layer_norm",
       [](Features& m) { return mean(square(layer_norm(features(m), {}, {}, 1e-8))); }, in(fp16)},
      {"rms norm with an eps that f32 does not hold", "eps-vanishes", "rms_norm",
       [](Features& m) { return mean(square(rms_norm(features(m), {}, 1e-50))); }},
      {"Dice without smoothing", "eps-vanishes", "dice",
       [](Features& m) {
         return dice(sigmoid(features(m)), binary({8, 16}), 0);
       }},
      {"a mask of -1e9 added in f16", "mask-constant", "cast",
       [](Features& m) { return mean(square(softmax(scores(m) + Variable(causal(-1e9))))); },
       in(fp16.with("add", DType::f16))},
      {"a mask multiplied by -1e9 in f16", "mask-constant", "mul_scalar",
       [](Features& m) { return mean(square(softmax(scores(m) + Variable(causal(1, DType::f16)) * -1e9))); }, in(fp16)},
      {"the lowest number of f16 as a mask of large scores", "mask-constant", "add",
       [](Features& m) { return mean(square(softmax(scores(m) * 100.0 + Variable(causal(-65504, DType::f16))))); },
       in(fp16)},
      {"a row masked whole before a softmax", "masked-row", "softmax",
       [](Features& m) {
         return mean(square(softmax(scores(m) + Variable(with_masked_row(causal(-kInfinity), -kInfinity)))));
       }},
      {"a softmax by hand of a row masked whole", "masked-row", "sub",
       [](Features& m) {
         const Variable x = scores(m) + Variable(with_masked_row(causal(-kInfinity), -kInfinity));
         const Variable e = exp(x - max(x, {-1}, true));
         return mean(square(e / sum(e, {-1}, true)));
       }},
      {"a row masked whole before attention", "masked-row", "attention",
       [](Features& m) {
         const Variable x = reshape(features(m), {1, 8, 16});
         return mean(square(
             attention(x, x, x, {.heads = 2}, reshape(with_masked_row(causal(-kInfinity), -kInfinity), {1, 1, 8, 8}))));
       }},
      {"a sum stored in f16", "long-sum", "sum",
       [](Features& m) { return sum(abs(features(m)) * 30.0 + 600.0) * 1e-3; }, in(fp16.with("sum", DType::f16))},
      {"a user's sum that accumulates in f16", "long-sum", "half_sum",
       [](Features& m) { return apply_one<HalfSum>({}, {sigmoid(features(m)) * 900.0}) * 1e-3; }},
      {"products near the end of f16", "headroom", "mul_scalar",
       [](Features& m) { return mean(features(m) * 2e4) * 1e-3; }, in(fp16)},
      {"products beyond f16", "headroom", "mul_scalar", [](Features& m) { return mean(features(m) * 1e6) * 1e-3; },
       in(fp16)},
      {"exp beyond f16", "exp-range", "exp", [](Features& m) { return mean(exp(features(m) * 10.0)); },
       in(fp16.with("exp", DType::f16))},
      {"exp beyond f32", "exp-range", "exp", [](Features& m) { return mean(exp(features(m) * 100.0)); }},
      {"a NaN in the batch", "bad-input", "linear",
       [](Features& m) {
         Tensor x = toy::random({8, 6}, 77);
         x.mutable_data<float>()[9] = std::nanf("");
         return mean(square(m(x)));
       }},
      {"masks of 0 and 255", "bad-target", "bce_with_logits",
       [](Features& m) {
         return bce_with_logits(features(m), Variable(binary({8, 16})) * 255.0);
       }},
      {"every label ignored", "no-label", "cross_entropy",
       [](Features& m) { return cross_entropy(features(m), labels(-100)); }},
      {"a label outside the classes", "refused", "step",
       [](Features& m) { return cross_entropy(features(m), labels(16)); }},
      {"a sigmoid that bce refuses in f16", "refused", "step",
       [](Features& m) {
         return bce(sigmoid(features(m)), binary({8, 16}));
       },
       in(fp16)},
      {"Adam without eps", "optimizer-eps", "adam", plain, {}, with<optim::Adam>(optim::AdamOptions{.eps = 0})},
      {"Adam with an eps that f32 does not hold",
       "optimizer-eps",
       "adamw",
       plain,
       {},
       with<optim::AdamW>(optim::AdamWOptions{.eps = 1e-60})},
      {"Adam with an eps far below squares of f32",
       "optimizer-eps",
       "adam",
       plain,
       {},
       with<optim::Adam>(optim::AdamOptions{.eps = 1e-30})},
      {"second moments that f16 does not hold",
       "moments-vanish",
       "adam",
       [](Features& m) { return mean(square(features(m))) * 1e-2; },
       {},
       with<optim::Adam>(optim::AdamOptions{.eps = 1e-6, .moment_dtype = DType::f16})},
      {"beta2 that rounds to 1",
       "beta-rounds-to-one",
       "adam",
       plain,
       {},
       with<optim::Adam>(optim::AdamOptions{.beta2 = 1 - 1e-9})},
      {"weight decay below f32",
       "decay-vanishes",
       "adamw",
       plain,
       {},
       with<optim::AdamW>(optim::AdamWOptions{.lr = 1e-6, .weight_decay = 1e-3})},
      {"weight decay below bf16 weights", "decay-vanishes", "lion", plain, in(nearest_bf16()),
       with<optim::Lion>(optim::LionOptions{.lr = 3e-3, .weight_decay = 0.1})},
      {"updates below bf16 weights", "update-vanishes", "adam", plain, in(nearest_bf16()),
       with<optim::Adam>(optim::AdamOptions{.lr = 1e-5})},
      {"a learning rate below f32 weights",
       "update-vanishes",
       "sgd",
       plain,
       {},
       with<optim::Sgd>(optim::SgdOptions{.lr = 1e-12})},
      {"a loss scale that cannot hold", "scale-overflow", "loss scale", plain,
       at_scale(fp16, LossScaleOptions::fixed(0x1p24))},
      {"a dynamic loss scale that begins far too high", "scale-overflow", "loss scale", plain,
       at_scale(fp16, LossScaleOptions::dynamic(0x1p32))},
      {"f16 without a loss scale", "scale-underflow", "loss scale",
       [](Features& m) { return mean(square(features(m))) * 1e-3; }, at_scale(fp16, LossScaleOptions::off())},
  };
  return cases;
}

std::vector<Case> look_alikes() {
  const Policy fp16 = Policy::fp16();
  return {
      {"bce on logits", "", "",
       [](Features& m) {
         return bce_with_logits(features(m), binary({8, 16}));
       },
       in(fp16)},
      {"bce of a clamped sigmoid", "", "",
       [](Features& m) {
         return bce(clamp(sigmoid(features(m)), 1e-6, 1 - 1e-6), binary({8, 16}));
       }},
      {"bce of a sigmoid kept inside f16", "", "",
       [](Features& m) {
         return bce(clamp(sigmoid(features(m)), 1e-3, 1 - 1e-3), binary({8, 16}));
       },
       in(fp16)},
      {"log of a sigmoid with eps", "", "", [](Features& m) { return -mean(log(sigmoid(features(m)) + 1e-7)); }},
      {"log of 1 - sigmoid with eps", "", "",
       [](Features& m) { return -mean(log(1.0 - sigmoid(features(m)) + 1e-6)); }},
      {"log_softmax", "", "", [](Features& m) { return -mean(log_softmax(features(m)) * one_hot()); }, in(fp16)},
      {"log of a softmax in f32 with an eps of 1e-8", "", "",
       [](Features& m) { return -mean(log(softmax(features(m)) + 1e-8) * one_hot()); }, in(fp16)},
      {"log of 1 + a square", "", "", [](Features& m) { return mean(log(1.0 + square(features(m)))); }},
      {"log of 1 + exp", "", "", [](Features& m) { return mean(log(exp(features(m)) + 1.0)); }},
      {"log of a ReLU in f16 with an eps of 1e-3", "", "",
       [](Features& m) { return mean(log(relu(features(m)) + 1e-3)); }, in(fp16)},
      {"log of a clamp", "", "", [](Features& m) { return mean(log(clamp(features(m), 1e-6, 1e6))); }},
      {"log of a maximum with a constant", "", "",
       [](Features& m) { return mean(log(maximum(features(m), Tensor::full({1}, 1e-6)))); }},
      {"two wheres around a log", "", "",
       [](Features& m) {
         const Variable x = abs(features(m)),
                        safe = where(binary({8, 16}).to(DType::u8), x, Tensor::full({8, 16}, 1.0));
         return mean(where(binary({8, 16}).to(DType::u8), log(safe), Tensor::full({8, 16}, 0.0)));
       }},
      {"log of positive data", "", "",
       [](Features& m) {
         return mean(m(log(Variable(binary({8, 6})) + 0.5)));
       }},
      {"a norm with eps", "", "", [](Features& m) { return mean(sqrt(sum(square(features(m)), {-1}) + 1e-12)); }},
      {"a norm of data without eps", "", "",
       [](Features& m) { return mean(features(m)) * sqrt(sum(square(input()))); }},
      {"standardization with eps", "", "",
       [](Features& m) {
         const Variable x = features(m);
         return mean(square(centered(x) / sqrt(variance(x) + 1e-5)));
       }},
      {"division by a sum of absolute values with eps", "", "",
       [](Features& m) {
         const Variable x = features(m);
         return mean(square(x / (sum(abs(x), {-1}, true) + 1e-6)));
       }},
      {"a softmax by hand with its maximum subtracted", "", "",
       [](Features& m) {
         const Variable x = features(m), e = exp(x - max(x, {-1}, true));
         return mean(square(e / sum(e, {-1}, true)));
       }},
      {"the same with the maximum detached", "", "",
       [](Features& m) {
         const Variable x = features(m), e = exp(x - max(x, {-1}, true).detach());
         return mean(log(sum(e, {-1}, true)));
       }},
      {"a sigmoid by hand", "", "", [](Features& m) { return mean(1.0 / (1.0 + exp(-features(m)))); }},
      {"division by a learned scale of 1", "", "", [](Features& m) { return mean(square(features(m) / m.scale)); }},
      {"division by a number", "", "", [](Features& m) { return mean(square(features(m) / 8.0)); }},
      {"Dice by hand with smoothing", "", "",
       [](Features& m) {
         const Variable p = sigmoid(features(m)), t = binary({8, 16});
         return 1.0 - (2.0 * sum(p * t) + 1.0) / (sum(p) + sum(t) + 1.0);
       }},
      {"mean over the visible, at least one", "", "",
       [](Features& m) {
         return sum(square(features(m)) * Variable(binary({8, 16}))) /
                maximum(sum(Variable(binary({8, 16}))), Tensor::full({1}, 1.0));
       }},
      {"a power of 3", "", "", [](Features& m) { return mean(pow(features(m), 3)); }},
      {"a negative power with eps", "", "",
       [](Features& m) { return mean(pow(sum(square(features(m)), {-1}) + 1e-6, -0.5)); }},
      {"one-pass variance that is clamped", "", "",
       [](Features& m) { return mean(sqrt(clamp(one_pass(features(m)), 0, 1e30) + 1e-5)); }},
      {"a user's op away from its singularity", "", "",
       [](Features& m) { return mean(apply_one<Shifted>({}, {sigmoid(features(m)) * 0.5})); }},
      {"layer norm in f16", "", "", [](Features& m) { return mean(square(layer_norm(features(m)))); }, in(fp16)},
      {"rms norm in f16", "", "", [](Features& m) { return mean(square(rms_norm(features(m)))); }, in(fp16)},
      {"layer norm in f32 with an eps of 1e-12", "", "",
       [](Features& m) { return mean(square(layer_norm(features(m), {}, {}, 1e-12))); }},
      {"Dice", "", "",
       [](Features& m) {
         return dice(sigmoid(features(m)), binary({8, 16}));
       },
       in(fp16)},
      {"a mask of -1e9 in f32", "", "",
       [](Features& m) { return mean(square(softmax(scores(m) + Variable(causal(-1e9))))); }, in(fp16)},
      {"a row masked whole by a large number", "", "",
       [](Features& m) { return mean(square(softmax(scores(m) + Variable(with_masked_row(causal(-1e9), -1e9))))); }},
      {"a mask of -inf in f16", "", "",
       [](Features& m) { return mean(square(softmax(scores(m) + Variable(causal(-kInfinity, DType::f16))))); },
       in(fp16)},
      {"a mask of -1e4 in f16", "", "",
       [](Features& m) { return mean(square(softmax(scores(m) + Variable(causal(-1e4, DType::f16))))); }, in(fp16)},
      {"attention with a mask", "", "",
       [](Features& m) {
         const Variable x = reshape(features(m), {1, 8, 16});
         return mean(square(attention(x, x, x, {.heads = 2}, reshape(causal(-kInfinity), {1, 1, 8, 8}))));
       },
       in(fp16)},
      {"a sum of many terms in f32", "", "", [](Features& m) { return sum(abs(features(m)) * 30.0 + 600.0) * 1e-3; },
       in(fp16)},
      {"a short sum stored in f16", "", "", [](Features& m) { return sum(sigmoid(features(m))) * 1e-1; },
       in(fp16.with("sum", DType::f16))},
      {"a mean stored in f16", "", "", [](Features& m) { return mean(abs(features(m)) * 30.0 + 600.0) * 1e-3; },
       in(fp16.with("mean", DType::f16))},
      {"products with room in f16", "", "", [](Features& m) { return mean(features(m) * 1e3) * 1e-3; }, in(fp16)},
      {"products beyond f16 in bf16", "", "", [](Features& m) { return mean(features(m) * 1e6) * 1e-6; },
       in(Policy::bf16())},
      {"exp in f16 with room", "", "", [](Features& m) { return mean(exp(features(m))); },
       in(fp16.with("exp", DType::f16))},
      {"soft targets", "", "",
       [](Features& m) {
         return bce_with_logits(features(m), Variable(binary({8, 16})) * 0.9);
       }},
      {"some labels ignored", "", "",
       [](Features& m) {
         Tensor some = labels();
         some.mutable_data<std::int32_t>()[2] = -100;
         return cross_entropy(features(m), some);
       },
       in(fp16)},
      {"Adam as it comes", "", "", plain, in(fp16), with<optim::Adam>(optim::AdamOptions{})},
      {"Adam on bf16 moments",
       "",
       "",
       plain,
       {},
       with<optim::Adam>(optim::AdamOptions{.beta2 = 0.99, .moment_dtype = DType::bf16})},
      {"second moments that f16 holds",
       "",
       "",
       [](Features& m) { return mean(square(features(m))) * 1e2; },
       {},
       with<optim::Adam>(optim::AdamOptions{.eps = 1e-6, .moment_dtype = DType::f16})},
      {"beta2 of 0.9999", "", "", plain, {}, with<optim::Adam>(optim::AdamOptions{.beta2 = 0.9999})},
      {"bf16 weights rounded stochastically", "", "", plain, in(Policy::pure_bf16()),
       with<optim::AdamW>(optim::AdamWOptions{.lr = 1e-5, .weight_decay = 0.1})},
      {"a small learning rate",
       "",
       "",
       plain,
       {},
       with<optim::AdamW>(optim::AdamWOptions{.lr = 1e-5, .weight_decay = 0.1})},
      {"a fixed loss scale that holds", "", "", plain, at_scale(fp16, LossScaleOptions::fixed(1024))},
      {"a dynamic loss scale a little too high", "", "", plain, at_scale(fp16, LossScaleOptions::dynamic(0x1p19))},
      {"a recomputed norm", "", "", [](Features& m) { return mean(square(layer_norm(relu(features(m))))); },
       in(Policy::bf16())},
  };
}

PreflightReport preflight(const Case& c) {
  Runtime runtime({.seed = 1, .threads = 1});
  Features model;
  const std::unique_ptr<optim::Optimizer> optimizer = c.optimizer ? c.optimizer(model)
                                                                  : std::make_unique<optim::AdamW>(model);
  Trainer trainer(runtime, model, *optimizer, c.options);
  return trainer.preflight(0, [&](int) { return c.loss(model); });
}

}  // namespace binade::amp::preflight_cases
