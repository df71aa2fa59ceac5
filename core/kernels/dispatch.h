#pragma once

#include <string_view>
#include <vector>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/embedding.h"
#include "binade/core/kernels/fp8.h"
#include "binade/core/kernels/gemm.h"
#include "binade/core/kernels/norm.h"
#include "binade/core/kernels/optimizer.h"
#include "binade/core/kernels/pool.h"
#include "binade/core/kernels/recurrent.h"

namespace binade::cpu {

struct ElementwiseKernels;
struct ReductionKernels;
struct RowKernels;
struct LossKernels;

/// The loops of one instruction-set level, called by the CPU's kernels (core/kernels/cpu/). Each family of loops is a
/// struct of function pointers. The sources listed in `kernel_sources` (meson.build) are compiled once per level, in
/// `namespace binade::cpu::BINADE_ISA`; level.cpp stores pointers to their functions in a Level.
struct Level {
  /// "generic", "v3" (AVX2, FMA, F16C), "v4" (AVX-512), "v4bf16" (and AVX512_BF16), "v4amx" (and AMX).
  std::string_view isa{};
  bool multiplies_bf16 = false;  ///< the level has instructions that multiply bf16, so that bf16 is not widened to f32
  GemmKernels gemm;
  ConvKernels conv;
  AttentionKernels attention;
  OptimizerBlockKernels optimizer;
  RowNormKernels row_norm;
  ColumnNormKernels column_norm;
  PoolKernels pool;
  EmbeddingKernels embedding;
  RecurrentKernels recurrent;
  Fp8RowKernels fp8;
  // Pointers, so that this header does not include every op.
  const ElementwiseKernels* elementwise = nullptr;
  const ReductionKernels* reduction = nullptr;
  const RowKernels* rows = nullptr;
  const LossKernels* losses = nullptr;
};

/// Returns the level that is fastest on this processor (not always the highest), or the one named by the environment
/// variable BINADE_ISA. Chosen once. Throws ArgumentError if that level is unknown, not built, or not supported by the
/// processor.
const Level& level();

/// Returns the levels that are built and that this processor supports, lowest first.
std::vector<std::string_view> isa_levels();

/// Returns the fastest of `levels`, which are usable on this processor, lowest first, and not empty. Intel's cores
/// issue vdpbf16ps at a quarter of the rate of FMA (AMD's cores at the same rate), so on them "v4", which widens bf16
/// to f32, is twice as fast as "v4bf16" and is preferred if it is built. AMX tile registers ("v4amx") are several times
/// as fast as either.
std::string_view preferred_isa(const std::vector<std::string_view>& levels, bool amd);

/// Switches `level()` to another level. For tests. Must not be called while kernels run.
void select_isa(std::string_view level);

}  // namespace binade::cpu
