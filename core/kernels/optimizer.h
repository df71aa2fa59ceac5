#pragma once

#include <cstdint>
#include <span>

#include "binade/core/dtype.h"
#include "binade/core/kernels/update_rules.h"
#include "binade/core/random.h"

namespace binade {

/// The largest number of elements of a block, in the passes over flat parameter storage: the scan on which the verdict
/// is based, the fused update, the moving average. Storage is cut into slices (one per parameter) and slices into
/// blocks of at most kFlatBlock elements, by size alone.
inline constexpr std::int64_t kFlatBlock = 4096;

/// Elements [begin, begin + count) of slice `slice`. `begin` is a multiple of kFlatBlock.
struct FlatBlock {
  std::int32_t slice = 0;
  std::int32_t count = 0;
  std::int64_t begin = 0;
};

// ---- scan ---------------------------------------------------------------------------------------

/// The result of the scan of one block of f32 values.
struct BlockScan {
  std::uint32_t largest = 0;  ///< bits of the largest |x|: > 0x7f800000 means NaN, == 0x7f800000 infinity
  double sum_squares = 0;     ///< sum of x^2; if needed, x is scaled by a power of two, so that no square overflows
};

inline constexpr int kSumLanes = 1024;  ///< number of partial sums in sum_of_blocks()
/// Returns the sum of sum_squares over all blocks, in a fixed order: lane l of kSumLanes partial sums adds every
/// kSumLanes-th block, from block l on; then the upper half of the lanes is added to the lower half, until one is left.
/// A GPU adds the sums in the same order.
double sum_of_blocks(std::span<const BlockScan> blocks);

/// Computes, for each block, the largest magnitude and the sum of squares of the values from values[slice] + begin on.
/// The sum is computed in float over 32 lanes that are combined in a fixed tree; it is 0 if the block holds a
/// non-finite value.
struct ScanArguments {
  std::span<const FlatBlock> blocks{};
  std::span<const float* const> values{};  ///< per slice; null: skip the slice
  std::span<BlockScan> results{};          ///< one per block
};

// ---- update -------------------------------------------------------------------------------------

/// Addresses of one parameter's arrays, and its numbers for this update.
struct UpdateSlice {
  const float* gradient = nullptr;  ///< null: the parameter has no gradient and is not changed
  void* value = nullptr;
  DType value_dtype =
      DType::f32;       ///< f16 or bf16 for weights without masters, which are rounded stochastically or to nearest
  void* low = nullptr;  ///< 16-bit copy, written with each f32 value, rounded to nearest even; may be null
  DType low_dtype = DType::f32;
  void* moment1 = nullptr;
  void* moment2 = nullptr;
  void* moment3 = nullptr;
  DType moment_dtype = DType::f32;

  float gradient_factor = 1;  ///< inverse loss scale x clip factor
  float clip_value = 0;       ///< if > 0, g is clamped to [-clip_value, clip_value]
  UpdateNumbers numbers{};
};

/// The largest magnitudes of one block after the update and before rounding to 16 bits, as the bits of floats.
struct BlockExtremes {
  std::uint32_t value = 0;
  std::uint32_t moment1 = 0;
  std::uint32_t moment2 = 0;  ///< of the second and the third state
};

/// Updates all blocks by a rule.
struct UpdateArguments {
  UpdateRule rule{};
  std::span<const FlatBlock> blocks{};
  std::span<const UpdateSlice> slices{};
  std::span<BlockExtremes> extremes{};  ///< one per block
  bool write = true;                    ///< false: a dry run that only fills `extremes`
  bool stochastic = false;              ///< 16-bit values are rounded stochastically; otherwise to nearest even
  RandomStream rounding{};              ///< element i of slice s uses word i of the stream with index s
};

// ---- moving average -----------------------------------------------------------------------------

/// average += weight (value - average), in float. average is f32, value f32, f16 or bf16.
struct AverageArguments {
  std::span<const FlatBlock> blocks{};
  std::span<float* const> averages{};     ///< one per slice
  std::span<const void* const> values{};  ///< one per slice
  std::span<const DType> value_dtypes{};  ///< one per slice
  float weight = 0;
  /// Empty, or one entry per block: receives the largest magnitude of the block's new averages, as the bits of a float.
  /// Only the CPU fills it.
  std::span<std::uint32_t> largest{};
};

// ---- clipping -----------------------------------------------------------------------------------

/// x *= factor; if limit > 0, x is then clamped to [-limit, limit]. NaN stays.
struct LimitArguments {
  std::span<const FlatBlock> blocks{};
  std::span<float* const> values{};  ///< per slice; null: skip the slice
  float factor = 1;
  float limit = 0;
};

/// Clips a gradient of `units` rows of `size` elements relative to its weight, of the same shape: a row whose norm,
/// times `inverse_scale`, is above share * max(norm of the weight's row, floor) is scaled down to that limit. Norms are
/// computed in double, in a fixed order.
struct UnitLimitArguments {
  std::int64_t units = 0, size = 0;  ///< number of rows; elements of a row
  const float* weights = nullptr;
  float* gradients = nullptr;
  double share = 0, floor = 0, inverse_scale = 1;
};

namespace cpu {

/// The loops that process one block of these passes, for one instruction-set level.
struct OptimizerBlockKernels {
  BlockScan (*scan)(const float* values, std::int64_t count) = nullptr;
  BlockExtremes (*update)(const UpdateArguments& arguments, const FlatBlock& block) = nullptr;
  std::uint32_t (*average)(float* average, const void* value, DType value_dtype, std::int64_t count,
                           float weight) = nullptr;
};

}  // namespace cpu
}  // namespace binade
