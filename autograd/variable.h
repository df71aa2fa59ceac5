#pragma once

#include <memory>
#include <string>

#include "binade/autograd/low_buffer.h"
#include "binade/core/scope.h"
#include "binade/core/tensor.h"

namespace binade {

class Node;

/// A tensor with the history of how it was computed; the type that models compute with. Copies refer to the same
/// variable. A Tensor converts implicitly to a Variable that requires no gradient.
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
  /// Returns the gradient of a leaf after backward(); undefined before the first one and after zero_grad().
  Tensor grad() const;
  /// Discards the gradient. The next backward pass overwrites its storage.
  void zero_grad();
  /// Returns the same value without history.
  Variable detach() const;

  /// Returns the value of a one-element variable. Throws ShapeError for others.
  double item() const { return value().item(); }

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// The state that all copies of a Variable share. Public for optimizers and checkpoints.
struct Variable::State {
  Tensor value;
  Tensor grad;                ///< gradient of a leaf (f32 for parameters); its storage survives zero_grad()
  bool grad_defined = false;  ///< true if `grad` has a value
  bool requires_grad = false;
  bool activation =
      false;  ///< true for a leaf that recompute() makes of an activation: its gradient has the dtype of `value`
  std::shared_ptr<Node> node;     ///< the recorded op that computed the value; null for leaves
  int output = 0;                 ///< the value is this output of `node`
  std::string name;               ///< dotted path of a parameter, for messages
  Tensor low;                     ///< 16-bit copy of a parameter, see low_copy()
  std::uint64_t low_version = 0;  ///< version of `value` that `low` is a copy of
  LowPlace low_place;             ///< where an optimizer stores the copy

  /// Returns `low`, the parameter rounded to `dtype`. The optimizer writes this copy in its update. If the copy is
  /// missing or older than the value, low_copy() makes it, in `low_place` if possible.
  const Tensor& low_copy(DType dtype);
};

/// Disables the recording of ops on the tape, on this thread, for the lifetime of the object.
class NoGradGuard : ScopedValue<bool> {
 public:
  NoGradGuard();
};

/// Enables recording inside a NoGradGuard, for the lifetime of the object. recompute() needs it.
class GradGuard : ScopedValue<bool> {
 public:
  GradGuard();
};
bool grad_enabled();

struct BackwardOptions {
  bool retain_graph = false;  ///< true if saved tensors are kept for a second backward
};

/// Runs the tape backwards from `loss` (one element) and adds to the gradients of leaves. `seed` is the gradient that
/// it starts with, such as the loss scale. Throws AutogradError if the loss has no history, or if an earlier backward
/// through the same nodes released them.
void backward(const Variable& loss, double seed = 1.0, const BackwardOptions& options = {});
/// Like backward(loss), for an output of any shape. `cotangent`, of the same shape, is the gradient that it starts
/// with.
void backward(const Variable& output, const Tensor& cotangent, const BackwardOptions& options = {});

}  // namespace binade
