#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// A leaf that a backward has computed a gradient for although no optimizer holds it, and the first op that reads it.
struct UnheldLeaf {
  std::weak_ptr<Variable::State> leaf{};
  std::string op{}, module{};
};

/// The leaves of a backward (including the recomputed segments in it) that reached parameters without an optimizer.
struct UnheldGradients {
  std::vector<UnheldLeaf> parameters{};
  std::vector<const void*> others{};  ///< states of the leaves that optimizers hold
  bool recomputed = false;            ///< true if only the backward of a recomputed segment reached the parameters
};

/// Removes and returns the backwards of this thread, at most the latest 8, that computed a gradient of an nn::Parameter
/// that no optimizer held. Empty if all parameters have an optimizer or are frozen.
std::vector<UnheldGradients> take_unheld_gradients();

/// During its lifetime, collects the leaves that get a gradient from a backward of this thread although they are no
/// nn::Parameter and no optimizer holds them: inputs whose gradient the program wants, or parameters made by hand.
class UnregisteredLeaves : NonCopyable {
 public:
  UnregisteredLeaves();
  ~UnregisteredLeaves();
  const std::vector<UnheldLeaf>& leaves() const { return leaves_; }

 private:
  friend class BackwardNotes;
  UnregisteredLeaves* outer_;
  std::vector<UnheldLeaf> leaves_;
};

/// During its lifetime, backwards of this thread store `scale` in the leaves that they compute gradients for
/// (Variable::State::loss_scale).
class ScaledBackward : ScopedValue<double> {
 public:
  explicit ScaledBackward(double scale);
};

/// Every backward makes one to collect the leaves that take_unheld_gradients() and LooseLeaves report. It costs two
/// loads per leaf if every parameter has an optimizer.
class BackwardNotes : NonCopyable {
 public:
  explicit BackwardNotes(std::span<const std::shared_ptr<Node>> nodes);
  ~BackwardNotes();

 private:
  bool outermost_;
};

}  // namespace binade
