#pragma once

namespace binade::detail {

/// While it lives: whether an op of this thread has read something that wants a gradient, recorded or not.
class TrainedScope {
 public:
  TrainedScope();
  ~TrainedScope();
  TrainedScope(const TrainedScope&) = delete;
  TrainedScope& operator=(const TrainedScope&) = delete;
  bool found() const { return found_; }
  /// An op reads such a variable.
  static void note();

 private:
  TrainedScope* outer_;
  bool found_ = false;
};

}  // namespace binade::detail
