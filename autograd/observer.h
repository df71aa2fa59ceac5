#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/observation.h"
#include "binade/core/ops/op.h"

namespace binade {

enum class Direction : std::uint8_t { kForward, kBackward };

/// Applies an op with stored parameters to inputs, and records it on the tape.
using OpFunction = std::function<std::vector<Variable>(std::span<const Variable> inputs)>;

/// An op call that observers are notified of.
struct OpCall {
  const OpInfo& info;
  std::string_view module_path{};  ///< path of the module that called the op; empty at the root
  std::int64_t tape_index =
      0;  ///< number of the op on the tape, the same in every step of a static model and in backward
  Direction direction = Direction::kForward;
  const void* params = nullptr;  ///< parameters of forward, read through params_of(); null in backward
  /// Returns the op with a copy of `params`, to run it again on other inputs; null in backward.
  OpFunction (*function_of)(const void* params) = nullptr;

  /// Returns the parameters of a forward call of `Op`; null for every other call.
  template <class Op>
  const typename Op::Params* params_of() const {
    return &info == &Op::info ? static_cast<const typename Op::Params*>(params) : nullptr;
  }
};

/// Base of objects that are notified of the ops of a thread, in order of execution, while an ObserverScope is alive.
/// Telemetry, diagnosis and fault injection use it.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;

  /// Called before an op runs. `inputs` are the variables that the caller passed (undefined if left out); `read` are
  /// the tensors that the op reads, after casts. The observer may replace tensors in `read` by others of the same shape
  /// and dtype.
  virtual void before_forward(const OpCall&, std::span<const Variable> /*inputs*/, Tensors& /*read*/) {}
  /// Returns the number that the op adds in its denominator instead of `eps`, its own parameter eps (or smooth).
  virtual double eps_of(const OpCall&, double eps) { return eps; }
  /// Returns the number that the op uses instead of `scalar`, its own parameter of that name.
  virtual double scalar_of(const OpCall&, double scalar) { return scalar; }
  /// Called after an op ran. `seen` has the largest magnitudes that its kernels stored. If the kernels are not Binade's
  /// own, the magnitudes were read from `outputs`.
  virtual void after_forward(const OpCall&, std::span<const Tensor> /*read*/, Tensors& /*outputs*/,
                             const Observation& /*seen*/) {}
  /// Called before an op's backward. `gy` are the gradients of its outputs; that of an output that the loss does not
  /// depend on is undefined. The observer may replace tensors in `gy`.
  virtual void before_backward(const OpCall&, Tensors& /*gy*/) {}
  /// True if after_backward() must get each op's own contribution to a gradient. False is cheaper: an op that adds its
  /// contribution to those of other ops (GradSink::add_to) is then reported with the sum so far.
  virtual bool separates_gradients() const { return false; }
  /// Called after an op's backward. `gx` are the gradients of its inputs, undefined if not needed. If the op multiplied
  /// a gradient by the activation derivative of the input's producer (GradSink::activation_derivative), `gx` has the
  /// product, which is also the `gy` of the producer.
  virtual void after_backward(const OpCall&, std::span<const Tensor> /*gy*/, std::span<const Tensor> /*gx*/,
                              const Observation& /*seen*/) {}
};

/// Registers `observer` for this thread's ops for the lifetime of the scope. Observers nest; all are called, the
/// outermost first.
class ObserverScope : NonCopyable {
 public:
  explicit ObserverScope(TapeObserver& observer);
  ~ObserverScope();
};

/// Hides all observers of this thread for the lifetime of the scope.
class NoObserverScope : NonCopyable {
 public:
  NoObserverScope();
  ~NoObserverScope();

 private:
  std::vector<TapeObserver*> hidden_;
};

namespace detail {
/// Returns the observers of this thread.
std::span<TapeObserver* const> tape_observers();
}  // namespace detail

}  // namespace binade
