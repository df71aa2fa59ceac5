#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::io {

/// A change of layout between another program's tensor ("theirs") and Binade's ("ours"), which can be undone:
///
///   transpose        a matrix is transposed
///   filter           axis 1 becomes the last: filters (K, C, R, S) of a convolution, or (C, K, R, S) of a transposed
///                    one, become (K, R, S, C) or (C, R, S, K); also of sequences and volumes. Tensors of fewer than 3
///                    axes stay as they are.
///   permute=0,2,3,1  axis i of ours is axis order[i] of theirs
///   flattened=64     the last axis of theirs is a flattened (64, positions), that of ours (positions, 64): the columns
///                    of a linear layer that follows the flattening of an image with 64 channels
///   blocks=0,1,3,2   axis 0 consists of equal blocks, and block i of ours is block order[i] of theirs: the gates of a
///                    recurrent layer
struct LayoutStep {
  /// The kinds of steps, in the order of the table above.
  enum class Kind : std::uint8_t { kTranspose, kFilter, kPermute, kFlattened, kBlocks };
  Kind kind = Kind::kFilter;            ///< the kind of change
  std::vector<std::int64_t> numbers{};  ///< the numbers after "="
};
using Layout = std::vector<LayoutStep>;

/// Parses one step, such as "permute=0,2,3,1". Throws ArgumentError that names the mistake.
LayoutStep layout_step(std::string_view text);
/// True if `text` begins with the name of a step.
bool is_layout_step(std::string_view text);

/// Apply all steps to a tensor of the other program, or undo them, last step first, on a tensor of Binade. The result
/// is on the host. Throw ShapeError if a step does not fit the shape.
Tensor to_ours(const Tensor& theirs, const Layout& layout);
Tensor to_theirs(const Tensor& ours, const Layout& layout);

/// Returns a tensor whose axis i is axis order[i] of t, on the host.
Tensor permuted(const Tensor& t, const std::vector<std::int64_t>& order);
/// Joins tensors of one dtype along an axis. Throws ShapeError if their other extents differ, DTypeError for several
/// dtypes.
Tensor joined(const std::vector<Tensor>& parts, int axis);
/// Splits a tensor along an axis into parts whose extents have the ratios `sizes`. Throws ShapeError if the sum of
/// `sizes` does not divide the extent.
std::vector<Tensor> split(const Tensor& t, int axis, const std::vector<std::int64_t>& sizes);

}  // namespace binade::io
