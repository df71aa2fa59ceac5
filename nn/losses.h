#pragma once

#include "autograd/functions/losses.h"
#include "core/step_context.h"

/// The losses of autograd/functions/losses.h under the module path "loss", which is how reports and overrides name
/// them.
namespace binade::nn {

inline Variable cross_entropy(const Variable& logits, const Variable& targets,
                              const ops::CrossEntropy::Params& options = {}) {
  const ModulePathScope path("loss");
  return binade::cross_entropy(logits, targets, options);
}
inline Variable bce_with_logits(const Variable& logits, const Variable& targets,
                                const ops::BceWithLogits::Params& options = {}) {
  const ModulePathScope path("loss");
  return binade::bce_with_logits(logits, targets, options);
}
inline Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction = Reduction::kMean) {
  const ModulePathScope path("loss");
  return binade::bce(probabilities, targets, reduction);
}
inline Variable dice(const Variable& probabilities, const Variable& targets, double smooth = 1) {
  const ModulePathScope path("loss");
  return binade::dice(probabilities, targets, smooth);
}
inline Variable mse(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean) {
  const ModulePathScope path("loss");
  return binade::mse(x, targets, reduction);
}
inline Variable l1(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean) {
  const ModulePathScope path("loss");
  return binade::l1(x, targets, reduction);
}
inline Variable huber(const Variable& x, const Variable& targets, double delta = 1,
                      Reduction reduction = Reduction::kMean) {
  const ModulePathScope path("loss");
  return binade::huber(x, targets, delta, reduction);
}
inline Variable kl_div(const Variable& log_probabilities, const Variable& targets,
                       Reduction reduction = Reduction::kMean) {
  const ModulePathScope path("loss");
  return binade::kl_div(log_probabilities, targets, reduction);
}

}  // namespace binade::nn
