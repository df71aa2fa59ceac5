#include "binade/autograd/functions/losses.h"

#include "binade/core/ops/cast.h"
#include "binade/core/ops/unary.h"

namespace binade {
namespace {

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
      "{}: wanted probabilities that keep their distance from 0 and 1, got the output of a sigmoid under a "
      "{} policy; call bce_with_logits on the sigmoid's input instead",
      where("bce"), name_of(low));
  return detail::loss<ops::Bce>({reduction}, probabilities, targets);
}

}  // namespace binade
