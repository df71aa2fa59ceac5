#pragma once

namespace binade::detail {

/// During its lifetime, records whether an op of this thread has read a variable that requires a gradient, recorded on
/// the tape or not.
class TrainedScope {
 public:
  TrainedScope();
  ~TrainedScope();
  TrainedScope(const TrainedScope&) = delete;
  TrainedScope& operator=(const TrainedScope&) = delete;
  bool found() const { return found_; }
  /// Call when an op reads such a variable.
  static void note();

 private:
  TrainedScope* outer_;
  bool found_ = false;
};

}  // namespace binade::detail
