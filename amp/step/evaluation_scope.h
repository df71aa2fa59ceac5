#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/autograd/inference_mode.h"
#include "binade/core/backend.h"
#include "binade/core/exclusive_use.h"
#include "binade/core/step_context.h"
#include "binade/optim/averaged_weights.h"

namespace binade::nn {
class Module;
}

namespace binade::amp {

class Transaction;

/// Sets evaluation mode and averaged weights, disables gradients, and restores everything at the end of its life. Until
/// then other threads may not use the trainer.
class EvaluationScope {
 public:
  explicit EvaluationScope(Transaction& transaction);
  ~EvaluationScope();
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  ExclusiveUse::Call call_;
  std::vector<std::pair<nn::Module*, bool>> modes_;  // parents before their children
  StepContext context_;
  InferenceMode inference_;
  binade::detail::WriteCounting counting_{true};  // the model may keep a tensor made here, and train with it later
  PolicyScope policy_;
  std::deque<optim::AveragedWeights> averages_;
  ArenaLoan lending_;
};

}  // namespace binade::amp
