/// Faults without a non-finite number: the training does less than the user wants, or something else.
#include <cmath>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

Batch regression(std::uint64_t seed) { return batch_of(normal(seed, {8, 8}), normal(seed + 500, {8, 1})); }

/// A learning rate of 0 in every step, as at the beginning of the warm-up of the issue: no weight changes.
void zero_rate(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 1);
  run.loss = [&](const Batch& b) { return nn::mse(head(b.x), b.y); };
  run.optimizer = [](Net& net) { return std::make_unique<optim::Adam>(net, optim::AdamOptions{.lr = 0}); };
  run.repeat(200, regression);
}

/// Weights in bf16, rounded to nearest: updates are below half of the last bit.
void bf16_weights(Run& run) {
  nn::Linear& first = run.net.linear("first", 8, 16);
  nn::Linear& head = run.net.linear("head", 16, 1);
  run.options.precision = amp::Policy::pure_bf16();
  run.options.precision.stochastic_rounding = false;
  run.loss = [&](const Batch& b) { return nn::mse(head(relu(first(b.x))), b.y); };
  run.optimizer = [](Net& net) { return std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 1e-6}); };
  run.repeat(260, regression);
}

/// The checkpointed encoder is cut off: its parameters never get a gradient.
void detached_encoder(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 16);
  nn::Linear& head = run.net.linear("head", 16, 1);
  run.loss = [&](const Batch& b) { return nn::mse(head(relu(encoder(b.x)).detach()), b.y); };
  run.repeat(200, regression);
}

/// The optimizer was given only some of the parameters.
void forgotten_parameters(Run& run) {
  nn::Linear& encoder = run.net.linear("encoder", 8, 16);
  nn::Linear& head = run.net.linear("crf", 16, 1);
  run.loss = [&](const Batch& b) { return nn::mse(head(relu(encoder(b.x))), b.y); };
  run.optimizer = [&](Net&) { return std::make_unique<optim::Adam>(encoder, optim::AdamOptions{.lr = 1e-3}); };
  run.repeat(200, regression);
}

/// A ReLU as the last layer starts below 0 for every sample: the prediction is 0, and so are all gradients.
void dead_output(Run& run) {
  nn::Linear& first = run.net.linear("first", 8, 16);
  nn::Linear& head = run.net.linear("head", 16, 1);
  head.bias.mutable_value().fill(-20);
  run.loss = [&](const Batch& b) { return nn::mse(relu(head(relu(first(b.x)))), b.y); };
  run.repeat(200, regression);
}

/// Gradient accumulation over micro-batches with different numbers of tokens: the mean of their means is not the mean.
void accumulated_means(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(b.x), b.y); };
  for (std::uint64_t i = 1; i <= 200; ++i) {
    Batch whole = batch_of(normal(i, {8, 8}), labels(i, {8}, 4)),
          padded = batch_of(normal(i + 900, {8, 8}), labels(i, {8}, 4));
    for (std::int64_t row = 1; row < 8; ++row) padded.y.mutable_data<std::int32_t>()[row] = -100;
    run.steps.push_back({{whole, padded}});
  }
}

/// Batch norm is trained with one image per batch. It removes the brightness of each image, so the running variance
/// lacks the differences between images, and evaluation differs much from training.
void evaluation_mode(Run& run) {
  nn::Linear& first = run.net.linear("first", 8, 16);
  auto& norm = run.net.add<nn::BatchNorm1d>("norm", nn::BatchNormOptions{.channels = 16});
  nn::Linear& head = run.net.linear("head", 16, 1);
  run.loss = [&](const Batch& b) { return nn::mse(head(norm(first(b.x))), b.y); };
  run.optimizer = [](Net& net) { return std::make_unique<optim::Adam>(net, optim::AdamOptions{.lr = 1e-2}); };
  const auto image = [](std::uint64_t seed) {
    Tensor x = normal(seed, {1, 5, 5, 8});
    std::vector<float> y;
    for (std::int64_t i = 0; i < x.numel(); i += 8) y.push_back(3 * x.data<float>()[i]);
    const auto brightness = static_cast<float>(normal(seed + 500, {1}, 20).item());
    for (std::int64_t i = 0; i < x.numel(); ++i) x.mutable_data<float>()[i] += brightness;
    return batch_of(x, Tensor::from(y, {1, 5, 5, 1}));
  };
  run.repeat(200, image);
  run.afterwards = [&run, image](amp::Trainer& trainer) {
    const auto mean_loss = [&] {
      const NoGradGuard no_grad;
      double sum = 0;
      for (std::uint64_t seed = 301; seed <= 308; ++seed) sum += run.loss(image(seed)).item();
      return sum / 8;
    };
    const double evaluated = trainer.evaluate(mean_loss);
    const double trained = mean_loss();
    run.check(evaluated > 10 * trained, fmt::format("evaluation {} is far above training {}", evaluated, trained));
  };
}

}  // namespace

std::vector<Issue> silent_faults() {
  const auto silent = [](std::string remedy, std::vector<amp::WarningKind> warnings, std::vector<std::string> refusal) {
    return Truth{
        .remedy = std::move(remedy), .warnings = std::move(warnings), .refusal = std::move(refusal), .silent = true};
  };
  return {
      {"zero-rate", "https://github.com/meta-pytorch/torchtune/issues/2010",
       "the warm-up starts at a learning rate of 0: no learning happens", "fp32",
       silent("a schedule that starts above 0", {amp::WarningKind::kStagnation}, {"lr"}), zero_rate},
      {"bf16-weights", "https://github.com/pytorch/ao/pull/1124",
       "an update below 1e-3 of a bf16 weight changes nothing when rounded to nearest", "pure bf16",
       silent("stochastic rounding, or f32 masters", {amp::WarningKind::kStagnation}, {}), bf16_weights},
      {"detached-encoder", "https://github.com/huggingface/transformers/issues/21381",
       "gradient checkpointing behind frozen layers disables all gradients in it", "fp32",
       silent("a path for the gradient", {amp::WarningKind::kUntrainedParameters}, {"gradient"}), detached_encoder},
      {"forgotten-parameters", "https://github.com/zjunlp/HVPNeT/issues/5",
       "the parameters of crf and fc were not handed to the optimizer and are not trained", "fp32",
       silent("all parameters in the optimizer", {}, {"crf"}), forgotten_parameters},
      {"dead-output", "https://github.com/jvargasmu/population_estimation/issues/68",
       "the initial solution predicts only zeros due to the ReLU at the end, and no gradients emerge", "fp32",
       silent("softplus instead of ReLU", {amp::WarningKind::kUntrainedParameters}, {"gradient"}), dead_output},
      {"accumulated-means", "https://github.com/huggingface/transformers/issues/37766",
       "the loss of each forward pass is divided by its own number of items, not by that of the whole batch", "fp32",
       silent("divide by the tokens of the whole step", {}, {}), accumulated_means},
      {"evaluation-mode", "https://github.com/BCV-Uniandes/DMS/issues/30",
       "trained with batch size 1, batch norm has no proper running statistics, so that evaluation mode is unusable",
       "fp32", silent("larger batches, or another norm", {amp::WarningKind::kEvaluationMismatch}, {}), evaluation_mode},
  };
}

}  // namespace binade::issues
