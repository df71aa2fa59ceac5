#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "binade/autograd/hooks.h"
#include "binade/core/scope.h"
#include "binade/core/tensor.h"

namespace binade {

class LowBuffer;
class Node;
class Variable;

/// The position of the 16-bit copy of a parameter in a LowBuffer. `buffer` is null if the copy has its own storage.
struct LowPlace {
  std::shared_ptr<LowBuffer> buffer{};
  std::int64_t begin = 0;  ///< position in the buffer, in elements
};

/// Receives a gradient in backward. Returns the gradient to use instead, of the same shape and dtype, or an undefined
/// variable to keep it. Must not write into `gradient`.
using GradientHook = std::function<Variable(const Variable& gradient)>;
struct VariableHooks {
  detail::HookList<GradientHook> list{};
  std::weak_ptr<Node> node{};  ///< of a leaf: the node that calls the hooks in the current graph
};

namespace detail {
/// Implements Variable::register_hook().
HookHandle add_gradient_hook(const Variable& x, GradientHook hook);
}  // namespace detail

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
  /// Freezes a leaf (false), or trains it again. Backward computes no gradient for a frozen parameter, no optimizer
  /// changes it, and optim::parameters_of() leaves it out. Throws AutogradError for a computed variable, DTypeError for
  /// integers.
  void requires_grad(bool on);
  bool is_leaf() const;
  /// Returns the gradient of a leaf after backward(); undefined before the first one and after zero_grad(). After a
  /// committed step of a Trainer: the gradient of the mean loss, without the loss scale and not clipped by norm or
  /// value, until the next step. Throws AutogradError after a captured step, which leaves none.
  Tensor grad() const;
  /// Discards the gradient. The next backward pass overwrites its storage.
  void zero_grad();
  /// Returns the same value without history.
  Variable detach() const;

  /// Calls `hook(gradient)` in every backward. For a leaf, `gradient` is that of this backward alone, before it is
  /// added to grad(); for a computed variable, the sum from those ops that read the variable after the hook was
  /// registered. `hook` returns nothing, or a gradient to use instead (GradientHook). In a step of a Trainer the
  /// gradient includes the loss scale. Throws AutogradError if the variable requires no gradient. docs/user-training.md
  /// says what hooks may do.
  template <class F>
  HookHandle register_hook(F hook) const {
    return detail::add_gradient_hook(*this, detail::returning<Variable>(std::move(hook)));
  }

  /// Returns the value of a one-element variable. Throws ShapeError for others.
  double item() const { return value().item(); }

  /// Returns x at position i of the first axis, without that axis: row i of a matrix. A negative i counts from the end.
  /// Its gradient is 0 elsewhere. Throws ShapeError for a scalar or a position outside of the axis.
  Variable operator[](std::int64_t i) const;
  /// Returns the slices of the first axis at positions `at` (i64 or i32), in their shape: index(x, {at}). If `at` is a
  /// bool mask with the first extents of x, returns the slices where it is true, in row-major order, and waits for a
  /// GPU. Throws ShapeError for a mask of another shape.
  Variable operator[](const Variable& at) const;

  struct State;
  /// The variable that has this state.
  explicit Variable(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Prints the value (Tensor::to_string()).
std::ostream& operator<<(std::ostream& out, const Variable& x);

/// Returns the same value; its gradient passes through `hook`. Returns `x` itself if it has no gradient.
Variable with_gradient_hook(const Variable& x, GradientHook hook);

/// The state that all copies of a Variable share. Public for optimizers and checkpoints.
struct Variable::State {
  Tensor value;
  Tensor grad;                ///< gradient of a leaf (f32 for parameters); its storage survives zero_grad()
  bool grad_defined = false;  ///< true if `grad` has a value
  bool requires_grad = false;
  bool parameter = false;        ///< true for an nn::Parameter: a gradient of it that no optimizer uses is a mistake
  std::atomic<int> holders = 0;  ///< number of optimizers that hold it
  /// The loss scale that `grad` includes if LossScaler::backward() computed it; else 1.
  double loss_scale = 1;
  /// Not 0 if the step of `grad` has ended: grad() then returns `grad` multiplied by this factor. grad_defined is
  /// false, so that the next backward overwrites `grad`. kCaptured after a captured step.
  std::atomic<float> ended_step = 0;
  static constexpr float kCaptured = -1;
  bool recomputed = false;  ///< true for a leaf that recompute() makes from its input
  /// True for a value that the first run of a recomputed segment made from trained variables: that run records nothing,
  /// so the value has no gradient. To read it outside of the segment is an error.
  bool lost_gradient = false;
  bool activation = false;     ///< true if that input was a computed value: its gradient has the dtype of `value`
  std::shared_ptr<Node> node;  ///< the recorded op that computed the value; null for leaves
  int output = 0;              ///< the value is this output of `node`
  std::string name;            ///< dotted path of a parameter, for messages
  std::shared_ptr<VariableHooks> hooks;  ///< null if register_hook() was never called
  /// Identifies the thread whose backward is writing `grad`; null if there is none.
  std::atomic<const void*> grad_writer = nullptr;

  static constexpr std::uint64_t kNoVersion = ~std::uint64_t{0};
  /// The parameter rounded to the dtype in which ops read it; undefined before the first read. The optimizer writes it
  /// in its update.
  Tensor low;
  std::atomic<std::uint64_t> low_version = kNoVersion;  ///< version of `value` that `low` is a copy of
  LowPlace low_place;                                   ///< where an optimizer stores `low`
  /// A copy in another dtype than `low`, for ops under an override.
  struct OtherCopy {
    Tensor tensor{};
    std::uint64_t version = kNoVersion;  ///< version of `value` that `tensor` is a copy of
  };
  std::vector<OtherCopy> other_copies;

  /// Returns the value rounded to `dtype`: `low`, or one of `other_copies` if `low` has another dtype. If that copy is
  /// missing or older than the value, makes it (`low` at `low_place` if possible). Threads may call it at the same time
  /// while none of them changes the value.
  Tensor low_copy(DType dtype);
  /// True if `tensor` is a copy that low_copy() has made of the present value.
  bool is_current_copy(const Tensor& tensor);
  /// Discards all copies. Call it after `value` was replaced by another tensor.
  void forget_copies();
  /// Keeps the gradient for grad() only, which multiplies it by `factor` when it is first read.
  void end_step(float factor) {
    ended_step.store(grad_defined ? factor : 0, std::memory_order_relaxed);
    grad_defined = false;
  }
  /// Returns the gradient that end_step() has kept, for grad().
  Tensor grad_of_ended_step();
  /// Discards `other_copies` that no op has read since copies_written(). If ops read `other_copies` only, discards all
  /// copies, so that the next read makes its copy as `low`. No other thread may use the variable meanwhile.
  void forget_unread_copies();
  /// Begins a new period for forget_unread_copies(). Called after each update.
  void copies_written() { low_read_.store(false, std::memory_order_relaxed); }

 private:
  std::mutex copies_mutex_;             // held by the thread that makes a copy, and while other_copies is read
  std::atomic<bool> low_read_ = false;  // true if an op has read `low` since copies_written()
};

/// Disables the recording of ops on the tape, on this thread, for the lifetime of the object.
class NoGradGuard : ScopedValue<bool> {
 public:
  NoGradGuard();
};

/// Enables recording inside a NoGradGuard or an InferenceMode, for the lifetime of the object. recompute() needs it.
class GradGuard : ScopedValue<bool> {
 public:
  GradGuard();

 private:
  detail::WriteCounting counting_;  // saved tensors must be protected against writes in place
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
