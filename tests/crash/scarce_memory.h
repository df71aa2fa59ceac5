#pragma once

namespace binade::crash {

/// Which allocation fails.
struct Shortage {
  int call = 0;        ///< the first allocation that fails, counted from 0
  bool lasts = false;  ///< true: all later allocations fail too
};

/// During its lifetime, allocations of all threads are counted and fail as the Shortage says. Counts operator new, and
/// calls of malloc and similar functions by Binade's own code (tensors, images of files). Sanitizer builds replace
/// malloc, so there it counts operator new only. At most one object may exist at a time.
class ScarceMemory {
 public:
  explicit ScarceMemory(const Shortage& shortage);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  /// Returns true if an allocation failed during the lifetime of the last object.
  static bool struck();
};

/// During its lifetime, allocations of this thread are not counted, because they belong to the experiment.
class UncountedMemory {
 public:
  UncountedMemory();
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;
};

}  // namespace binade::crash
