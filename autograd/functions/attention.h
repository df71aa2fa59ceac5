#pragma once

#include <cstdint>

#include "binade/autograd/variable.h"
#include "binade/core/ops/attention.h"

namespace binade {

/// Attention of q (B, T, H, D) on k, v (B, S, G, D), or of q (B, T, H D) on k, v (B, S, G D) if `params.heads` is set.
/// The mask is optional. See ops::Attention.
Variable attention(const Variable& q, const Variable& k, const Variable& v, const ops::Attention::Params& params = {},
                   const Variable& mask = {});

/// Which two features of a head rotary() rotates together.
enum class RotaryPairs : std::uint8_t {
  kHalves,     ///< i and i + width / 2 (GPT-NeoX, Llama)
  kNeighbors,  ///< 2 i and 2 i + 1 (the original, GPT-J)
};
/// Returns the angles of rotary() as cosines and sines (2, count, width / 2): position p = begin, …, begin + count - 1
/// has the angles p base^(-2 i / width). Computed in double. Throws ArgumentError unless width is even and positive,
/// base > 0, begin >= 0 and count >= 0.
Tensor rotary_table(std::int64_t count, std::int64_t width, double base = 10000, std::int64_t begin = 0,
                    DType dtype = DType::f32, Device device = Device::cpu());
/// Rotary position embedding (Su et al., "RoFormer", 2021): rotates pairs (a, b) of the first features of each head of
/// x (B, T, H, D) by the angles of its position t, to (a cos - b sin, a sin + b cos). The product of a rotated query
/// and a rotated key then depends on the difference of their positions alone. `table` (2, T, R / 2) is a rotary_table()
/// with R <= D; features from R on are unchanged. Computed in the wider dtype of x and table and rounded to x's
/// dtype. Throws ShapeError for other shapes.
Variable rotary(const Variable& x, const Variable& table, RotaryPairs pairs = RotaryPairs::kHalves);

}  // namespace binade
