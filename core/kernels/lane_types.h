#pragma once

#include "binade/core/kernels/tile.h"

/// Selects the register tile that multiplies a stored type. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// The lane that multiplies bf16 at this kernel level.
#if defined(__AMX_BF16__)
using Bf16Lane = Bf16TileLane;
#elif defined(__AVX512BF16__)
using Bf16Lane = Bf16PairLane;
#else
using Bf16Lane = FloatLane;
#endif

/// Calls f.operator()<Lane, T>() for inputs of dtype `in`.
template <class F>
void dispatch_lane(DType in, F&& f) {
  switch (in) {
    case DType::f64: return f.template operator()<DoubleLane, double>();
    case DType::f16: return f.template operator()<FloatLane, float16>();
    case DType::bf16: return f.template operator()<Bf16Lane, bfloat16>();
    default: return f.template operator()<FloatLane, float>();
  }
}

/// Calls f.operator()<Lane, T, Out>() for inputs of dtype `in` and a result of dtype `out`.
template <class F>
void dispatch_lanes(DType in, DType out, F&& f) {
  dispatch_lane(in, [&]<class Lane, class T>() {
    if constexpr (std::is_same_v<T, double>) {
      f.template operator()<Lane, T, double>();
    } else {
      switch (out) {
        case DType::f16: return f.template operator()<Lane, T, float16>();
        case DType::bf16: return f.template operator()<Lane, T, bfloat16>();
        default: return f.template operator()<Lane, T, float>();
      }
    }
  });
}

}  // namespace binade::cpu::BINADE_ISA
