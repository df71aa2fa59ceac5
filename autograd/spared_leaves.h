#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// During its lifetime, backward computes no gradient for some leaves, and none that leads to no other leaf. Gradients
/// pass through the ops that read the leaves as before, with the same bits. Recording, requires_grad() and grad() do
/// not change, so that a graph may be recorded before. REQUIRES: no other thread uses the leaves meanwhile.
class SparedLeaves : NonCopyable {
 public:
  explicit SparedLeaves(std::span<const std::shared_ptr<Variable::State>> leaves) {
    for (const auto& leaf : leaves)
      if (!std::exchange(leaf->spared, true)) leaves_.push_back(leaf);
  }
  ~SparedLeaves() {
    for (const auto& leaf : leaves_) leaf->spared = false;
  }

 private:
  std::vector<std::shared_ptr<Variable::State>> leaves_;  // without those that an outer scope spares
};

}  // namespace binade
