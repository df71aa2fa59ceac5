#include <algorithm>
#include <array>
#include <cmath>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/math.h"
#include "binade/core/parallel.h"

namespace binade {
namespace cpu {

// Blocks depend on the size alone and each writes its own result, so the number of threads does not change any bits.
void run_scan(const ScanArguments& a) {
  const OptimizerBlockKernels& kernels = level().optimizer;
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    const FlatBlock& block = a.blocks[static_cast<std::size_t>(b)];
    const float* values = a.values[static_cast<std::size_t>(block.slice)];
    a.results[static_cast<std::size_t>(b)] = values == nullptr ? BlockScan{}
                                                               : kernels.scan(values + block.begin, block.count);
  });
}

void run_update(const UpdateArguments& a) {
  const OptimizerBlockKernels& kernels = level().optimizer;
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    a.extremes[static_cast<std::size_t>(b)] = kernels.update(a, a.blocks[static_cast<std::size_t>(b)]);
  });
}

void run_average(const AverageArguments& a) {
  const OptimizerBlockKernels& kernels = level().optimizer;
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    const FlatBlock& block = a.blocks[static_cast<std::size_t>(b)];
    const auto slice = static_cast<std::size_t>(block.slice);
    const auto* value = static_cast<const std::byte*>(a.values[slice]) +
                        static_cast<std::size_t>(block.begin) * size_of(a.value_dtypes[slice]);
    const std::uint32_t largest = kernels.average(a.averages[slice] + block.begin, value, a.value_dtypes[slice],
                                                  block.count, a.weight);
    if (!a.largest.empty()) a.largest[static_cast<std::size_t>(b)] = largest;
  });
}

void run_limit(const LimitArguments& a) {
  parallel_blocks(static_cast<std::int64_t>(a.blocks.size()), [&](std::int64_t b) {
    const FlatBlock& block = a.blocks[static_cast<std::size_t>(b)];
    float* x = a.values[static_cast<std::size_t>(block.slice)];
    if (x == nullptr) return;
    x += block.begin;
    for (std::int64_t i = 0; i < block.count; ++i) x[i] *= a.factor;
    if (a.limit > 0)
      for (std::int64_t i = 0; i < block.count; ++i) x[i] = math::clamp(x[i], -a.limit, a.limit);
  });
}

static double norm_of(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(sum);
}

void run_limit_units(const UnitLimitArguments& a) {
  parallel_for(a.units, std::max<std::int64_t>(1, kFlatBlock / a.size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      float* g = a.gradients + u * a.size;
      const double largest = a.share * std::max(norm_of(a.weights + u * a.size, a.size), a.floor);
      const double norm = norm_of(g, a.size) * a.inverse_scale;
      if (!(norm > largest)) continue;
      const auto factor = static_cast<float>(largest / norm);
      for (std::int64_t i = 0; i < a.size; ++i) g[i] *= factor;
    }
  });
}

}  // namespace cpu

double sum_of_blocks(std::span<const BlockScan> blocks) {
  std::array<double, kSumLanes> lanes{};
  for (std::size_t b = 0; b < blocks.size(); ++b) lanes[b % kSumLanes] += blocks[b].sum_squares;
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

}  // namespace binade
