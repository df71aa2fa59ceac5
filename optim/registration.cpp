#include "binade/optim/registration.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "binade/core/error.h"

namespace binade::optim {

std::string describe(const UnheldLeaf& parameter, const std::string& name) {
  const std::shared_ptr<Variable::State> leaf = parameter.leaf.lock();
  std::string text = name.empty() ? "a parameter" : fmt::format("the parameter '{}'", name);
  if (leaf) text += fmt::format(" ({} {})", binade::name_of(leaf->value.dtype()), leaf->value.shape());
  if (!parameter.op.empty())
    text += fmt::format(", which '{}'{} reads", parameter.op,
                        parameter.module.empty() ? "" : fmt::format(" in {}", parameter.module));
  return text;
}

void check_registration(std::span<Optimizer* const> optimizers) {
  const std::vector<UnheldGradients> backwards = take_unheld_gradients();
  if (backwards.empty()) return;
  std::set<const void*> held;
  for (const Optimizer* optimizer : optimizers)
    for (const FlatParameters::Slice& slice : optimizer->parameters().slices())
      held.insert(slice.variable.state().get());
  for (const UnheldGradients& one : backwards) {
    if (!one.recomputed && std::ranges::none_of(one.others, [&](const void* leaf) { return held.contains(leaf); }))
      continue;  // a backward of another training loop
    for (const UnheldLeaf& parameter : one.parameters) {
      const std::shared_ptr<Variable::State> leaf = parameter.leaf.lock();
      if (leaf == nullptr || leaf->holders > 0 || !leaf->requires_grad || !leaf->grad_defined) continue;
      throw ArgumentError(fmt::format(
          "{}: backward computed a gradient for {}, and no optimizer holds it, so that it would never change; name it "
          "in visit() and make the optimizer after all layers, or freeze it with requires_grad(false)",
          optimizers.front()->kind(), describe(parameter, leaf->name)));
    }
  }
}

void check_update(const std::string& who, const UpdateProof& proof) {
  check<NumericError>(proof.finite, "{}: the update would bring {} to {}, beyond {}; nothing was changed; {}", who,
                      proof.parameter, proof.largest, proof.limit,
                      std::isfinite(proof.largest) ? "lower the learning rate"
                                                   : "lower the learning rate, or raise eps if the optimizer has one");
}

}  // namespace binade::optim
