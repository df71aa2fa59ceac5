#pragma once

#include <cstdint>

#include "binade/core/dtype.h"

namespace binade {

/// The largest magnitudes among what kernels stored, as bits of a float: exponent, infinity (0x7f800000) and NaN
/// (above) can be read off, and the larger word is the worse one. 0: nothing was observed. Values on their way to 16
/// bits are taken before they are rounded, so that a word tells how far beyond the range they were. Doubles are not
/// observed.
struct Observation {
  std::uint32_t low = 0;   ///< of values stored as f16 or bf16
  std::uint32_t wide = 0;  ///< of values stored as f32
  /// Not 0: more was seen on a GPU, where it lies under this number until somebody asks (settled()): a step that is
  /// watched does not wait for its kernels one by one.
  std::int64_t pending = 0;

  bool any() const { return (low | wide) != 0 || pending != 0; }
  /// Waits where both are pending.
  void merge(const Observation& other);
  /// The same with nothing pending: waits for the GPU where the words have not been brought yet (all that are pending
  /// come at once).
  Observation settled() const;
};

/// The smallest word that stands for a value which `dtype` cannot hold: rounded to nearest it becomes infinite.
constexpr std::uint32_t overflow_word(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x477ff000u;   // 65520
    case DType::bf16: return 0x7f7f8000u;  // half a step beyond the largest
    default: return 0x7f800000u;
  }
}

/// Collects what kernels see between its construction and take(), on this thread and on the threads that help it.
class ObservationScope {
 public:
  ObservationScope();
  ~ObservationScope();
  ObservationScope(const ObservationScope&) = delete;
  ObservationScope& operator=(const ObservationScope&) = delete;

  /// What was seen since the construction, or the last take().
  Observation take();

 private:
  Observation outer_;
};

/// While one lives, this thread's scopes see what Binade's kernels store and nothing else: what a library computed on a
/// GPU is not read again for them. Where no library works without Binade's kernels behind it (the CPU) nothing changes.
class OwnKernelsOnly {
 public:
  OwnKernelsOnly();
  ~OwnKernelsOnly();
  OwnKernelsOnly(const OwnKernelsOnly&) = delete;
  OwnKernelsOnly& operator=(const OwnKernelsOnly&) = delete;

 private:
  bool outer_;
};

/// What is in a tensor, found by reading it: for results that no kernel of Binade's stored. Doubles are taken as
/// floats. Nothing for integers. Settled.
Observation observe(const class Tensor& tensor);
/// The same, added to what the scope that is open sees.
void observe_into_scope(const class Tensor& tensor);

namespace detail {

/// Who wants to know of what this thread computes now.
struct Watched {
  bool at_all = false;    ///< a scope is open
  bool libraries = true;  ///< what libraries compute too
};
Watched watched();

/// This thread's running observation. Kernels add to it when a task ends.
void note(const Observation& seen);
/// Replaces it and returns what it was.
Observation exchange_observation(const Observation& next);

}  // namespace detail
}  // namespace binade
