#pragma once

#include "binade/core/scope.h"

namespace binade::detail {

/// Records whether an op of this thread read a variable that requires a gradient, even if nothing was recorded.
class TrainedScope : NonCopyable {
 public:
  TrainedScope();
  ~TrainedScope();
  bool found() const { return found_; }
  /// Called by apply() when an op reads such a variable.
  static void note();

 private:
  TrainedScope* outer_;
  bool found_ = false;
};

}  // namespace binade::detail
