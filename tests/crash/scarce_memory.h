#pragma once

namespace binade::crash {

/// Which allocation fails.
struct Shortage {
  int call = 0;        ///< the first allocation that fails, counted from 0
  bool lasts = false;  ///< true: all later allocations fail too
};

/// During its lifetime, allocations of all threads are counted and fail as the Shortage says: operator new everywhere,
/// and malloc and similar functions if Binade's own code calls them (tensors, images of files). In sanitizer builds,
/// which replace malloc, only operator new. At most one object at a time.
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
