#pragma once

#include <atomic>

#include "binade/core/scope.h"

namespace binade {

/// Makes concurrent calls of an object throw, for objects that serve one thread at a time. Nested calls on the same
/// thread are allowed. Threads may take turns without further synchronization.
class ExclusiveUse : NonCopyable {
 public:
  /// `object`: name of the object in messages, such as "trainer". The text must outlive the ExclusiveUse.
  explicit ExclusiveUse(const char* object) : object_(object) {}

  /// Represents one call of the object. A function of the object constructs it before it reads any member.
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
  std::atomic<const char*> name_ = nullptr;    // name of its outermost call; null while that begins or ends
  int depth_ = 0;                              // number of nested calls; only that thread reads and writes it
};

}  // namespace binade
