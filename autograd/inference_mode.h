#pragma once

#include <string_view>

#include "binade/autograd/variable.h"

namespace binade {

/// During its lifetime, this thread computes results that no training step will use:
///
///     const InferenceMode mode;
///     const Variable prediction = model(x);   // after model.eval()
///
/// Ops record nothing, and new tensors do not count writes in place, which saves memory and time. In exchange such a
/// tensor cannot take part in a backward: an op that would save it throws AutogradError; use its clone(). Work that
/// belongs to training throws AutogradError: backward, Optimizer::step, Trainer::step, and a layer in training mode
/// that would update statistics or 8-bit scales. Inside a GradGuard, ops record and backward works again, for
/// evaluations that need gradients; steps and statistics stay forbidden. Parameters that are made inside count writes
/// as usual.
class InferenceMode : ScopedValue<bool> {
 public:
  InferenceMode();
  /// True if this thread is inside an InferenceMode.
  static bool active();
  /// Throws AutogradError if active() is true: "WHAT: not possible inside an InferenceMode; ADVICE".
  static void refuse(std::string_view what, std::string_view advice);

 private:
  NoGradGuard no_grad_;
  detail::WriteCounting counting_;
};

}  // namespace binade
