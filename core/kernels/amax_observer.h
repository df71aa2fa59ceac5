#pragma once

#include "binade/core/kernels/simd.h"
#include "binade/core/observation.h"

/// Observes the magnitudes that kernels store (core/observation.h). Each block of work keeps a running maximum in one
/// register, and merges it into its thread's observation when the block ends. Magnitudes are compared as integers
/// (their bits), so infinities and NaN are larger than all numbers and are not lost. Only for sources in
/// `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// The bits of a float except for its sign.
inline constexpr std::int32_t kMagnitudeBits = 0x7fffffff;

/// Returns the lane-wise maximum of a magnitude (initially 0) and |x|; NaN is larger than infinity.
inline VFloat larger_magnitude(const VFloat& magnitude, const VFloat& x) {
  const VInt own = (VInt)x & kMagnitudeBits;
  return (VFloat)(own > (VInt)magnitude ? own : (VInt)magnitude);
}

/// Observes the values that one block of work stores with dtype `stored`. Doubles and integers are not observed.
class AmaxObserver {
 public:
  explicit AmaxObserver(DType stored) : stored_(stored) {}
  AmaxObserver(const AmaxObserver&) = delete;
  AmaxObserver& operator=(const AmaxObserver&) = delete;
  ~AmaxObserver() {
    const VInt magnitudes = (VInt)largest_;
    std::int32_t largest = 1;  // not 0, which means "not observed": a block may store only zeros
    for (int i = 0; i < kLanes<std::int32_t>; ++i) largest = magnitudes[i] > largest ? magnitudes[i] : largest;
    const auto word = static_cast<std::uint32_t>(largest);
    switch (stored_) {
      case DType::f16:
      case DType::bf16: detail::note({.low = word}); break;
      case DType::f32: detail::note({.wide = word}); break;
      default: break;
    }
  }

  void add(const VFloat& x) { largest_ = larger_magnitude(largest_, x); }
  void add(const Vector<double>&) {}
  void add(float x) { add(splat(x)); }
  void add(double) {}
  /// Observes `count` contiguous values.
  void add(const float* x, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + kLanes<float> <= count; i += kLanes<float>) add(load_vector<float>(x + i));
    if (i < count) add(load_part(x + i, static_cast<int>(count - i)));
  }
  void add(const double*, std::int64_t) {}

 private:
  DType stored_;
  VFloat largest_{};
};

/// Observes the values that one loop stores, and passes their maximum to the observer of the block of work when the
/// loop ends. During the loop the maximum stays in a register, whereas an AmaxObserver is written to memory in every
/// iteration.
class LoopAmaxObserver {
 public:
  explicit LoopAmaxObserver(AmaxObserver& amax) : amax_(amax) {}
  LoopAmaxObserver(const LoopAmaxObserver&) = delete;
  LoopAmaxObserver& operator=(const LoopAmaxObserver&) = delete;
  [[gnu::always_inline]] ~LoopAmaxObserver() { amax_.add(largest_); }

  [[gnu::always_inline]] void add(const VFloat& x) { largest_ = larger_magnitude(largest_, x); }
  void add(const Vector<double>&) {}

 private:
  AmaxObserver& amax_;
  VFloat largest_{};
};

}  // namespace binade::cpu::BINADE_ISA
