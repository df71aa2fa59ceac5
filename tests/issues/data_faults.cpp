/// Bad samples, and state that went bad outside of the step.
#include <cmath>
#include <limits>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

using Cause = amp::CauseClass;

/// A feature of one sample is NaN in the data set.
void nan_sample(Run& run) {
  nn::Linear& first = run.net.linear("first", 8, 16);
  nn::Linear& head = run.net.linear("head", 16, 4);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(relu(first(b.x))), b.y); };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 4)); };
  Batch faulty = healthy(9);
  faulty.x.mutable_data<float>()[2 * 8 + 5] = std::numeric_limits<float>::quiet_NaN();
  run.fault_between(healthy, faulty);
}

/// A token id that the embedding does not have.
void token_out_of_range(Run& run) {
  auto& embedding = run.net.add<nn::Embedding>("embedding", nn::EmbeddingOptions{.count = 128, .dim = 8});
  nn::Linear& head = run.net.linear("head", 8, 4);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(mean(embedding(b.x), {1})), b.y); };
  const auto healthy = [](std::uint64_t seed) { return batch_of(labels(seed, {4, 5}, 128), labels(seed + 9, {4}, 4)); };
  Batch faulty = healthy(9);
  faulty.x.mutable_data<std::int32_t>()[1 * 5 + 2] = 128;
  run.fault_between(healthy, faulty);
}

/// A label that is neither a class nor ignore_index.
void label_out_of_range(Run& run) {
  nn::Linear& head = run.net.linear("head", 8, 5);
  run.loss = [&](const Batch& b) { return nn::cross_entropy(head(b.x), b.y, {.ignore_index = -1}); };
  const auto healthy = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 5)); };
  Batch faulty = healthy(9);
  faulty.y.mutable_data<std::int32_t>()[3] = -4;
  run.fault_between(healthy, faulty);
}

/// The optimizer made a step with a NaN loss, and the moving average copied the NaN into the teacher. The teacher is
/// not a part of the trained model; it returns NaN from then on.
void nan_teacher(Run& run) {
  nn::Linear& student = run.net.linear("student", 8, 4);
  nn::Module& teacher = run.net.formula("teacher");
  Tensor weight = normal(4, {4, 8});
  weight.mutable_data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  run.loss = [&, weight](const Batch& b) {
    const Variable target = inside(teacher, [&] { return linear(b.x, weight); });
    return nn::mse(student(b.x), target.detach());
  };
  const auto draw = [](std::uint64_t seed) { return batch_of(normal(seed, {6, 8}), labels(seed, {6}, 2)); };
  run.repeat(2, draw);
}

/// One loss scaler and two optimizers, which step one after the other after one backward. The second optimizer would
/// use gradients of a loss scale that has changed.
void two_optimizers(Run& run) {
  nn::Linear& generator = run.net.linear("generator", 8, 8);
  nn::Linear& critic = run.net.linear("critic", 8, 1);
  optim::Sgd first(generator, {.lr = 0.1}), second(critic, {.lr = 0.1});
  amp::LossScaler scaler;
  scaler.backward(mean(square(critic(generator(Variable(normal(1, {4, 8})))))));
  scaler.step(first);
  scaler.step(second);
}

}  // namespace

std::vector<Issue> data_faults() {
  return {
      {"nan-sample",
       "https://github.com/ds4dm/ecole/issues/324",
       "the problem is caused by samples: there is NaN in the files",
       "fp32",
       {{}, {}, "input", 2, {Cause::kBadInput}, "drop the sample"},
       nan_sample},
      {"token-out-of-range",
       "https://github.com/huggingface/transformers/issues/6484",
       "an index that the embedding table does not have",
       "fp32",
       {.direction = "input",
        .sample = 1,
        .classes = {Cause::kBadInput},
        .remedy = "drop the sample, or enlarge the table",
        .refusal = {"embedding", "128"}},
       token_out_of_range},
      {"label-out-of-range",
       "https://github.com/pytorch/pytorch/issues/12670",
       "the target -4 is neither a class nor ignore_index, and should be an error",
       "fp32",
       {.direction = "input",
        .sample = 3,
        .classes = {Cause::kBadInput},
        .remedy = "drop the sample",
        .refusal = {"cross_entropy", "-4"}},
       label_out_of_range},
      {"nan-teacher",
       "https://github.com/discovery-unicamp/Minerva/pull/111",
       "the optimizer steps on a NaN loss, and update_ema passes the NaN to the teacher",
       "fp32",
       {{}, {"teacher"}, "", {}, {Cause::kCorruptedState}, "an earlier teacher"},
       nan_teacher},
      {"two-optimizers",
       "https://github.com/neosr-project/neosr/pull/9",
       "scaler.update() ran once per optimizer instead of once after both",
       "fp16",
       {.remedy = "step both optimizers in one call", .refusal = {"step"}, .silent = true},
       two_optimizers},
  };
}

}  // namespace binade::issues
