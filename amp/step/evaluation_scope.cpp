#include "binade/amp/step/evaluation_scope.h"

#include "binade/amp/step/transaction.h"

namespace binade::amp {

EvaluationScope::EvaluationScope(Transaction& transaction)
    : call_(transaction.call("evaluate")),
      context_(step_context()),
      policy_(transaction.policy()),
      lending_(backend_of(transaction.device())) {
  nn::Module& model = transaction.model();
  modes_.emplace_back(&model, model.training());
  for (const auto& [path, module] : nn::named_modules(model)) modes_.emplace_back(module, module->training());
  step_context().seed = transaction.seed();
  step_context().step = static_cast<std::uint64_t>(transaction.counters().steps);
  step_context().next = {};
  for (optim::Ema* averages : transaction.averages())
    if (averages != nullptr) averages_.emplace_back(averages->parameters(), averages->values());
  for (optim::Optimizer* optimizer : transaction.optimizers()) averages_.emplace_back(*optimizer);
  model.eval();
}
EvaluationScope::~EvaluationScope() {
  for (const auto& [module, training] : modes_) module->train(training);
  step_context() = std::move(context_);
}

}  // namespace binade::amp
