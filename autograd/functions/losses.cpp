#include "binade/autograd/functions/losses.h"

#include <optional>

#include "binade/autograd/apply.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/unary.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

template <class Op>
Variable loss(const typename Op::Params& params, const Variable& x, const Variable& targets) {
  std::optional<ModulePathScope> scope;
  if (step_context().module_path.empty()) scope.emplace("loss");
  return apply_one<Op>(params, {x, targets});
}

/// True if x is the output of a sigmoid, possibly cast afterwards.
bool made_by_sigmoid(const Variable& x) {
  std::shared_ptr<Node> node = x.defined() ? x.state()->node : nullptr;
  while (node && &node->info() == &ops::Cast::info && !node->edges().empty()) node = node->edges()[0].node;
  return node && &node->info() == &ops::Sigmoid::info;
}

}  // namespace

Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction) {
  const DType low = current_policy().low;
  check<ArgumentError>(
      !(is_half(low) && made_by_sigmoid(probabilities)),
      "{}: wanted probabilities that keep their distance from 0 and 1, got the output of a sigmoid under {} "
      "{} policy; call bce_with_logits on the sigmoid's input instead",
      where("bce"), low == DType::f16 ? "an" : "a", name_of(low));
  return loss<ops::Bce>({reduction}, probabilities, targets);
}

Variable cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& options) {
  return loss<ops::CrossEntropy>(options, logits, targets);
}

Variable bce_with_logits(const Variable& logits, const Variable& targets, const ops::BceWithLogits::Params& options) {
  return loss<ops::BceWithLogits>(options, logits, targets);
}

Variable dice(const Variable& probabilities, const Variable& targets, double smooth) {
  return loss<ops::Dice>({smooth}, probabilities, targets);
}

Variable mse(const Variable& x, const Variable& targets, Reduction reduction) {
  return loss<ops::Mse>({reduction}, x, targets);
}

Variable l1(const Variable& x, const Variable& targets, Reduction reduction) {
  return loss<ops::L1>({reduction}, x, targets);
}

Variable huber(const Variable& x, const Variable& targets, double delta, Reduction reduction) {
  return loss<ops::Huber>({delta, reduction}, x, targets);
}

Variable kl_div(const Variable& log_probabilities, const Variable& targets, Reduction reduction) {
  return loss<ops::KlDiv>({reduction}, log_probabilities, targets);
}

}  // namespace binade
