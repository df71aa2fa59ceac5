#pragma once

#include "core/kernels/lanes.h"
#include "core/kernels/vector_math.h"
#include "core/ops/math.h"

/// Exponentials of the rows that softmax and cross entropy go over. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

/// to[i] = exp(from[i] - offset); `to` may be `from`.
inline void exponentials(const float* from, float offset, float* to, std::int64_t n) {
  const VFloat origin = splat(offset);
  each_group<float>(n, [&](std::int64_t i, auto part) { put(to + i, exp(get(from + i, part) - origin), part); });
}
inline void exponentials(const double* from, double offset, double* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = math::exp(from[i] - offset);
}

}  // namespace binade::cpu::BINADE_ISA
