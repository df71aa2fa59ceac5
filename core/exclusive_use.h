#pragma once

#include <atomic>

#include "binade/core/scope.h"

namespace binade {

/// Refuses calls of an object that another thread is using, for objects that serve one thread at a time. Calls inside
/// of a call, on the same thread, are allowed. Threads may take turns without further synchronization.
class ExclusiveUse : NonCopyable {
 public:
  /// `object`: the word for the object in messages, "trainer". It must outlive this one.
  explicit ExclusiveUse(const char* object) : object_(object) {}

  /// One call of the object, during the life of this. Make it before the call reads anything of the object.
  class Call : NonCopyable {
   public:
    /// `name`: name of the called function, in messages; it must outlive the call. Throws ArgumentError, which names
    /// both calls, if another thread is inside of a call.
    Call(ExclusiveUse& use, const char* name) : use_(use) { use_.begin(name); }
    ~Call() { use_.end(); }

   private:
    ExclusiveUse& use_;
  };

 private:
  void begin(const char* name);
  void end() noexcept;

  const char* object_;
  std::atomic<const void*> thread_ = nullptr;  // identifies the thread that is inside of a call; null if there is none
  std::atomic<const char*> name_ = nullptr;    // of that thread's outermost call; null while it begins or ends
  int depth_ = 0;                              // number of nested calls; only that thread reads and writes it
};

}  // namespace binade
