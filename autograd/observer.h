#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "binade/autograd/variable.h"
#include "binade/core/observation.h"
#include "binade/core/ops/op.h"

namespace binade {

enum class Direction : std::uint8_t { kForward, kBackward };

/// Which op call an observer is told of.
struct OpCall {
  const OpInfo& info;
  std::string_view module_path{};  ///< where the op was called; empty at the root
  std::int64_t tape_index = 0;     ///< the same in every step of a static model, and in both directions
  Direction direction = Direction::kForward;
  const void* params = nullptr;  ///< what forward was called with; null in backward. Read it through params_of()

  /// The parameters of a forward call of `Op`; null for every other call.
  template <class Op>
  const typename Op::Params* params_of() const {
    return &info == &Op::info ? static_cast<const typename Op::Params*>(params) : nullptr;
  }
};

/// Watches the ops of one thread while an ObserverScope holds it: telemetry, the autopsy of a bad step, fire drills.
/// Calls come in the order of execution. What a user's op does is seen like what Binade's do.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;

  /// Before an op runs. `inputs` as the user gave them (undefined where an optional one was left out), `read` as the op
  /// will read them: after casts; may be replaced by tensors of the same shapes and dtypes.
  virtual void before_forward(const OpCall&, std::span<const Variable> inputs, Tensors& read) {
    static_cast<void>(inputs), static_cast<void>(read);
  }
  /// The guard that an op with one in its denominator (eps, smooth) computes with, given the one it was called with.
  virtual double eps_of(const OpCall& call, double eps) {
    static_cast<void>(call);
    return eps;
  }
  /// After it ran. `seen` is what its kernels stored, or what is in `outputs` where those are not Binade's.
  virtual void after_forward(const OpCall&, std::span<const Tensor> read, Tensors& outputs, const Observation& seen) {
    static_cast<void>(read), static_cast<void>(outputs), static_cast<void>(seen);
  }
  /// Before its backward: gradients of its outputs, undefined where nothing depended on one; may be replaced likewise.
  virtual void before_backward(const OpCall&, Tensors& gy) { static_cast<void>(gy); }
  /// Whether after_backward() is to be told each op's gradients by themselves. False: those that were added to what
  /// other ops had given (GradSink::add_to) are seen as the sum that lies there then, which costs nothing.
  virtual bool separates_gradients() const { return false; }
  /// After its backward: what it gave for each of its inputs, undefined where none was wanted. Multiplied by the
  /// activation derivative of what made the input where the op did that (GradSink::activation_derivative); that op's
  /// `gy` is the same.
  virtual void after_backward(const OpCall&, std::span<const Tensor> gy, std::span<const Tensor> gx,
                              const Observation& seen) {
    static_cast<void>(gy), static_cast<void>(gx), static_cast<void>(seen);
  }
};

/// Lets `observer` watch this thread's ops for the lifetime of the scope. Observers nest; all of them are called, the
/// outermost first.
class ObserverScope {
 public:
  explicit ObserverScope(TapeObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
};

namespace detail {
/// Those that watch this thread now.
std::span<TapeObserver* const> tape_observers();
}  // namespace detail

}  // namespace binade
