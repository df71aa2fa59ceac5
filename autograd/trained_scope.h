#pragma once

#include "binade/core/scope.h"

namespace binade::detail {

/// During its lifetime, detects whether any op of this thread reads a variable that requires a gradient, even inside a
/// NoGradGuard.
class TrainedScope : NonCopyable {
 public:
  TrainedScope();
  ~TrainedScope();
  bool found() const { return found_; }
  /// Called by apply() when an op reads a variable that requires a gradient.
  static void note();

 private:
  TrainedScope* outer_;
  bool found_ = false;
};

}  // namespace binade::detail
