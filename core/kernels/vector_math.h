#pragma once

#include "core/kernels/simd.h"

/// Elementary functions on vectors. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

/// 1 ulp on [-103.9, 89]; exactly 0 below (a masked logit must weigh nothing), inf above, NaN stays. Cody and Waite's
/// reduction, then the Taylor series to r^7 (whose remainder on |r| <= ln 2 / 2 is below 2^-27).
inline VFloat exp(VFloat argument) {
  VFloat x = argument < -104.0f ? splat(-104.0f) : argument;
  x = x > 89.0f ? splat(89.0f) : x;
  const VFloat round = splat(0x1.8p23f);  // adding it leaves the nearest integer in the low bits
  const VFloat shifted = multiply_add(x, splat(1.44269504f), round);
  const VFloat n = shifted - round;
  VFloat r = multiply_add(n, splat(-0.693359375f), x);  // ln 2 in two parts; the first has 9 bits: n times it is exact
  r = multiply_add(n, splat(2.12194440e-4f), r);
  VFloat p = splat(1.0f / 5040);
  p = multiply_add(p, r, splat(1.0f / 720));
  p = multiply_add(p, r, splat(1.0f / 120));
  p = multiply_add(p, r, splat(1.0f / 24));
  p = multiply_add(p, r, splat(1.0f / 6));
  p = multiply_add(p, r, splat(0.5f));
  p = multiply_add(p * r, r, r) + 1.0f;
  // 2^n in two factors: n runs from -150 to 128 and one would leave the range of the exponent.
  const VInt whole = (VInt)shifted - (VInt)round;
  const VInt half = whole >> 1;
  const VFloat y = p * (VFloat)((half + 127) << 23) * (VFloat)((whole - half + 127) << 23);
  return argument < -103.9f ? VFloat{} : y;
}

/// Sum of the lanes in a fixed order.
inline float sum_lanes(VFloat x) {
  float lanes[kLanes<float>];
  store_vector<float>(lanes, x);
  for (int width = kLanes<float> / 2; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

}  // namespace binade::cpu::BINADE_ISA
