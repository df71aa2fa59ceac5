#pragma once

#include <cstdint>

#include "binade/core/dtype.h"
#include "binade/core/scope.h"

namespace binade {

/// The largest magnitudes that kernels stored. Each is a word with the bits of a float: a larger word is a larger
/// magnitude, 0x7f800000 is infinity and anything above is NaN. 0 means that no value was observed. Values stored in 16
/// bits are observed before rounding, so that a word shows how far they exceed the range. Doubles are not observed.
struct Observation {
  std::uint32_t low = 0;   ///< word for values stored as f16 or bf16
  std::uint32_t wide = 0;  ///< word for values stored as f32
  /// If not 0, the number of an observation that is still on the GPU; synchronized() fetches it. So the host does not
  /// wait for each kernel of an observed step.
  std::int64_t pending = 0;

  bool any() const { return (low | wide) != 0 || pending != 0; }
  /// Takes the larger words of both observations. Waits for the GPU only if both have different `pending` numbers.
  void merge(const Observation& other);
  /// Returns the observation with its values on the host (`pending` is 0). Waits for the GPU if necessary; all pending
  /// observations are fetched together.
  Observation synchronized() const;
  [[deprecated("use synchronized()")]] Observation settled() const { return synchronized(); }
};

/// Returns the word of the smallest magnitude that becomes infinite when it is rounded to `dtype`.
constexpr std::uint32_t overflow_word(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x477ff000u;   // 65520
    case DType::bf16: return 0x7f7f8000u;  // half a unit in the last place above the largest
    default: return 0x7f800000u;
  }
}

/// Collects the observations of kernels from its construction to take(), on this thread and on the pool threads that
/// execute its parallel regions.
class ObservationScope : NonCopyable {
 public:
  ObservationScope();
  ~ObservationScope();

  /// Returns the largest magnitudes since the construction or the last take().
  Observation take();

 private:
  Observation outer_;
};

/// During its lifetime, ObservationScopes of this thread observe only values that Binade's own kernels store. Results
/// of GPU libraries are not observed, which saves reading them again. No effect on the CPU.
class OwnKernelsOnly : ScopedValue<bool> {
 public:
  OwnKernelsOnly();
};

/// Reads a tensor and returns its largest magnitude; `pending` of the result is 0. Used for results that no kernel of
/// Binade stored. Doubles are converted to f32; integer tensors give an empty observation.
Observation observe(const class Tensor& tensor);
/// Like observe(), but adds the result to the open ObservationScope of this thread.
void observe_into_scope(const class Tensor& tensor);

namespace detail {

/// The results that kernels observe on this thread.
struct Watched {
  bool at_all = false;    ///< true if a scope is open
  bool libraries = true;  ///< true if results of libraries are observed too
};
Watched watched();

/// Merges `seen` into this thread's observation. Kernels call it with the largest magnitudes that they stored.
void note(const Observation& seen);
/// Replaces this thread's observation and returns the old one.
Observation exchange_observation(const Observation& next);

}  // namespace detail
}  // namespace binade
