#include "examples/transformer/evaluation.h"

#include <algorithm>

#include "binade/io/terminal/signals.h"

namespace binade::examples {
namespace {

std::int64_t count_hits(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary) {
  const std::vector<float> values = logits.to_vector<float>();
  const std::vector<std::int32_t> wanted = targets.to_vector<std::int32_t>();
  const auto width = static_cast<std::size_t>(logits.shape().cols());
  std::int64_t hits = 0;
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    if (wanted[row] == io::kIgnoredTarget) continue;
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * width);
    hits += std::max_element(first, first + vocabulary) - first == wanted[row];
  }
  return hits;
}

}  // namespace

TextScore evaluate(Gpt& model, const io::TokenSequence& tokens, std::int64_t batch) {
  const InferenceMode inference;
  const bool was_training = model.training();
  model.eval();
  auto batches = io::evaluation_batches(tokens, {.context = model.options().context, .batch = batch, .prefetch = 1});
  TextScore score;
  double loss_sum = 0;
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < batches.batches_per_epoch(); ++i) {
    if (io::StopSignals::stop_requested()) throw amp::EvaluationStopped();
    const io::TextBatch b = batches.next();
    const Variable logits = model(b.tokens);
    const std::vector<std::int32_t> targets = b.targets.to_vector<std::int32_t>();
    const std::int64_t valid = std::ssize(targets) - std::ranges::count(targets, io::kIgnoredTarget);
    loss_sum += nn::cross_entropy(logits, b.targets, {.ignore_index = io::kIgnoredTarget}).item() *
                static_cast<double>(valid);
    hits += count_hits(logits.value(), b.targets, model.options().vocabulary);
    score.tokens += valid;
  }
  model.train(was_training);
  score.loss = loss_sum / static_cast<double>(score.tokens);
  score.accuracy = static_cast<double>(hits) / static_cast<double>(score.tokens);
  return score;
}

}  // namespace binade::examples
