#pragma once

#include <cstdint>
#include <string>

#include "tests/threads/mixed_model.h"

namespace binade::test {

/// A training with every kind of state that threads might mix up: initial weights from the init streams, dropout,
/// batch-norm statistics, averages, a loss scale, and stochastic rounding under policies without master weights.
struct SmallTraining {
  struct Net : MixedModel {
    nn::Dropout dropout{{.p = 0.2}};
    void visit(nn::Visitor& v) override {
      MixedModel::visit(v);
      v("dropout", dropout);
    }
    Variable forward(const Variable& x) override { return dropout(MixedModel::forward(x)); }
  };

  SmallTraining(Runtime& runtime, const std::string& policy)
      : optimizer(net, {.lr = 0.01f}),
        trainer(runtime, net, optimizer,
                {.precision = amp::Policy::by_name(policy), .clip_norm = 1, .ema = optim::EmaOptions{.decay = 0.9}}) {}

  void steps(int count) {
    for (int i = 0; i < count; ++i)
      trainer.step(image(next_++, 4), [&](const Tensor& x) { return mean(square(net(x) + -0.5)); });
  }
  /// Returns the mean of the predictions with averaged weights, as evaluation computes it.
  double evaluate() {
    return trainer.evaluate([&] { return mean(net(image(1000, 4))).item(); });
  }

  Net net;
  optim::AdamW optimizer;
  amp::Trainer trainer;

 private:
  int next_ = 0;
};

/// Trains in a new Runtime on the calling thread, with an evaluation in the middle. Returns the state hash after
/// `count` steps.
inline std::string trained(std::uint64_t seed, const std::string& policy, int count) {
  Runtime runtime({.seed = seed, .threads = 2});
  SmallTraining training(runtime, policy);
  training.steps(count / 2);
  const double score = training.evaluate();
  training.steps(count - count / 2);
  return training.trainer.state_hash() + std::to_string(score);
}

}  // namespace binade::test
