#pragma once

#include <memory>
#include <string>

#include "binade/autograd/low_buffer.h"
#include "binade/core/tensor.h"

namespace binade {

class Node;

/// A tensor with history: what models are written in. A value with shared state, like a pointer; copies are the same
/// variable. Made implicitly from a Tensor (no gradient wanted).
class Variable {
 public:
  Variable() = default;
  Variable(Tensor value, bool requires_grad = false);  // NOLINT(google-explicit-constructor): models take tensors

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  std::int64_t dim(int i) const { return value().dim(i); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }

  bool requires_grad() const;
  bool is_leaf() const;
  /// The gradient of a leaf after backward(); undefined before the first one and after zero_grad().
  Tensor grad() const;
  /// Forgets the gradient. Its storage stays for the next pass, which overwrites it.
  void zero_grad();
  /// The same value without history.
  Variable detach() const;

  /// One-element value as double. Throws ShapeError otherwise.
  double item() const { return value().item(); }

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// The shared part. Public for optimizers and checkpoints; models have no use for it.
struct Variable::State {
  Tensor value;
  Tensor grad;                ///< storage for the gradient of a leaf (f32 for parameters); may outlive zero_grad()
  bool grad_defined = false;  ///< whether `grad` holds this pass's gradient
  bool requires_grad = false;
  bool activation = false;     ///< a leaf standing for an activation (recompute): its gradient keeps its dtype
  std::shared_ptr<Node> node;  ///< what made it; null for leaves
  int output = 0;              ///< which output of `node`
  std::string name;            ///< dotted path of a parameter, for messages
  Tensor low;                  ///< low-precision copy of a parameter, see low_copy()
  std::uint64_t low_version = 0;
  LowPlace low_place;  ///< where an optimizer wants it to lie

  /// The parameter rounded to `dtype`. Written by the optimizer in its own pass; made here when it is missing or older
  /// than the value, in `low_place` if that takes it.
  const Tensor& low_copy(DType dtype);
};

/// While one lives on this thread, nothing is recorded.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

/// The opposite, inside a NoGradGuard (recompute runs its segment so).
class GradGuard {
 public:
  GradGuard();
  ~GradGuard();
  GradGuard(const GradGuard&) = delete;
  GradGuard& operator=(const GradGuard&) = delete;

 private:
  bool previous_;
};
bool grad_enabled();

struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors for a second backward
};

/// Runs the tape backwards from `loss` (one element; seeded with `seed`, the loss scale). Gradients of leaves are
/// added to what is there. Throws AutogradError on a second pass through a freed graph or a loss without history.
void backward(const Variable& loss, double seed = 1.0, const BackwardOptions& options = {});
/// The same for any output with the cotangent given (its shape and dtype).
void backward(const Variable& output, const Tensor& cotangent, const BackwardOptions& options = {});

}  // namespace binade
