#include "binade/amp/step/step_transaction.h"

#include <algorithm>

#include "binade/core/error.h"

namespace binade::amp {

StepTransaction::StepTransaction(std::vector<nn::Module*> models, std::vector<optim::Optimizer*> optimizers)
    : models_(std::move(models)), optimizers_(std::move(optimizers)), logs_(optimizers_.size()) {
  check<ArgumentError>(std::ranges::count(models_, nullptr) == 0 && std::ranges::count(optimizers_, nullptr) == 0,
                       "step transaction: wanted models and optimizers, got a null pointer");
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    check<ArgumentError>(std::ranges::count(optimizers_, optimizers_[i]) == 1,
                         "step transaction: optimizer {} is listed twice", i);
    logs_[i].reserve(*optimizers_[i]);
  }
}

bool StepTransaction::run_step(const std::function<bool()>& step) {
  const ExclusiveUse::Call call(*use_, "run");
  check<ArgumentError>(!in_step_, "step transaction: run was called inside of a step of the same transaction");
  const ScopedValue in_step(in_step_, true);
  for (std::size_t i = 0; i < optimizers_.size(); ++i) logs_[i].save(*optimizers_[i]);
  nn::Shadows shadows;
  bool commits = false;
  try {
    const nn::TransactionScope scope(shadows);
    commits = step();
  } catch (...) {
    roll_back();
    throw;
  }
  if (!commits) {
    roll_back();
    return false;
  }
  for (nn::Module* model : models_)
    for (const auto& [name, buffer] : nn::named_buffers(*model)) buffer->commit();
  shadows.release();  // keeps those of models that are not listed, whose changes are never undone
  for (UndoLog& log : logs_) log.drop();
  return true;
}

void StepTransaction::roll_back() {
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    logs_[i].restore(*optimizers_[i]);
    optimizers_[i]->zero_grad();
  }
  for (nn::Module* model : models_) {
    for (const auto& [name, buffer] : nn::named_buffers(*model)) buffer->rollback();
    for (const auto& [name, parameter] : nn::named_parameters(*model)) parameter->zero_grad();
  }
}

}  // namespace binade::amp
