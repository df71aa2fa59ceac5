#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "binade/autograd/variable.h"
#include "binade/core/observation.h"
#include "binade/core/ops/op.h"

namespace binade {

enum class Direction : std::uint8_t { kForward, kBackward };

/// An op call that observers are notified of.
struct OpCall {
  const OpInfo& info;
  std::string_view module_path{};  ///< of the caller; empty at the root
  std::int64_t tape_index = 0;     ///< equal in every step of a static model, and in forward and backward
  Direction direction = Direction::kForward;
  const void* params = nullptr;  ///< parameters of forward, read through params_of(); null in backward

  /// Returns the parameters of a forward call of `Op`; null for every other call.
  template <class Op>
  const typename Op::Params* params_of() const {
    return &info == &Op::info ? static_cast<const typename Op::Params*>(params) : nullptr;
  }
};

/// Is notified of the ops of a thread while an ObserverScope is alive. Used by telemetry, diagnosis and fault
/// injection. Calls come in order of execution, for users' ops too.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;

  /// Called before an op runs. `inputs` are those of the caller (undefined if left out), `read` those that the op
  /// reads, after casts. The observer may replace the latter by tensors of the same shapes and dtypes.
  virtual void before_forward(const OpCall&, std::span<const Variable> inputs, Tensors& read) {
    static_cast<void>(inputs), static_cast<void>(read);
  }
  /// Returns the eps (or smooth) that the op uses in its denominator, given that of the call.
  virtual double eps_of(const OpCall& call, double eps) {
    static_cast<void>(call);
    return eps;
  }
  /// Called after an op ran. `seen` is what its kernels stored, or read from `outputs` if they are not Binade's
  /// kernels.
  virtual void after_forward(const OpCall&, std::span<const Tensor> read, Tensors& outputs, const Observation& seen) {
    static_cast<void>(read), static_cast<void>(outputs), static_cast<void>(seen);
  }
  /// Called before an op's backward with the gradients of its outputs, undefined if nothing depends on an output. The
  /// observer may replace them.
  virtual void before_backward(const OpCall&, Tensors& gy) { static_cast<void>(gy); }
  /// True if after_backward() needs each op's contribution to a gradient separately. False is cheaper: contributions
  /// that were added to those of other ops (GradSink::add_to) are then passed as the sum so far.
  virtual bool separates_gradients() const { return false; }
  /// Called after an op's backward with the gradients of its inputs, undefined if not needed. If the op multiplied one
  /// by the activation derivative of the input's producer (GradSink::activation_derivative), the product is passed,
  /// which also is the producer's `gy`.
  virtual void after_backward(const OpCall&, std::span<const Tensor> gy, std::span<const Tensor> gx,
                              const Observation& seen) {
    static_cast<void>(gy), static_cast<void>(gx), static_cast<void>(seen);
  }
};

/// Registers `observer` for this thread's ops for the lifetime of the scope. Observers nest; all are called, the
/// outermost first.
class ObserverScope : NonCopyable {
 public:
  explicit ObserverScope(TapeObserver& observer);
  ~ObserverScope();
};

namespace detail {
/// Returns the observers of this thread.
std::span<TapeObserver* const> tape_observers();
}  // namespace detail

}  // namespace binade
