#pragma once

namespace binade::crash {

/// Which allocation fails.
struct Shortage {
  int call = 0;        ///< the first that fails, counted from 0
  bool lasts = false;  ///< and all after it
};

/// While one lives, allocations of all threads count, and fail as the shortage says: operator new everywhere, and
/// malloc and its kin where Binade itself calls them (tensors, images of files). In sanitizer builds, which have a
/// malloc of their own, operator new alone. One at a time.
class ScarceMemory {
 public:
  explicit ScarceMemory(const Shortage& shortage);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  /// Of the last one: whether there were as many allocations as that, so that one failed.
  static bool struck();
};

/// While one lives, allocations of this thread do not count: they are the laboratory's.
class UncountedMemory {
 public:
  UncountedMemory();
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;
};

}  // namespace binade::crash
