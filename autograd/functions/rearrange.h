#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"

/// Flips, repetitions, padding, windows, diagonals, and changes of shape; see core/ops/rearrange.h. Tensors have any
/// dtype unless values are added. Negative axes count from the end. Every function returns a new tensor or a view, like
/// the functions in shape.h, and throws ArgumentError or ShapeError with its name.
namespace binade {

/// Returns x with the order along `axes` reversed.
Variable flip(const Variable& x, const std::vector<int>& axes);
/// Moves positions along `axes` by `shifts`; elements that leave at one end enter at the other. No axes: all elements
/// move in row-major order.
Variable roll(const Variable& x, const std::vector<std::int64_t>& shifts, const std::vector<int>& axes = {});
/// Rotates the plane of two axes by 90 degrees k times, from the first axis towards the second.
Variable rot90(const Variable& x, int k = 1, int first = 0, int second = 1);
/// Returns positions begin, begin + step, … below end along `axis`; negative begin and end count from the end. step >
/// 0.
Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end, std::int64_t step);
/// Returns position i along `axis`, without that axis; a negative i counts from the end.
Variable select(const Variable& x, int axis, std::int64_t i);

/// Repeats x along new outer axes and axes of extent 1; -1 keeps an extent. The gradient is summed over repetitions.
Variable expand(const Variable& x, std::vector<std::int64_t> dims);
Variable broadcast_to(const Variable& x, std::vector<std::int64_t> dims);
/// Repeats x repeats[d] times along each axis d; more numbers than axes add outer axes. tile() accepts fewer too.
Variable repeat(const Variable& x, const std::vector<std::int64_t>& repeats);
Variable tile(const Variable& x, const std::vector<std::int64_t>& repeats);
/// Repeats each position j along `axis` `repeats` times, or repeats[j] times (the host reads `repeats`).
Variable repeat_interleave(const Variable& x, std::int64_t repeats, int axis);
Variable repeat_interleave(const Variable& x, const Variable& repeats, int axis);

/// How pad() fills.
enum class PadMode {
  kConstant,   ///< with `value`
  kReflect,    ///< mirrored at the outermost element; padding < extent
  kReplicate,  ///< with the outermost element
  kCircular,   ///< with the elements at the other end
};
/// Adds padding[0] positions before and padding[1] after along the last axis, padding[2] and padding[3] along the
/// second last, and so on (PyTorch's order). Negative numbers remove positions. Images are (N, H, W, C): {0, 0, 1, 1,
/// 1, 1} pads H and W by 1.
Variable pad(const Variable& x, const std::vector<std::int64_t>& padding, PadMode mode = PadMode::kConstant,
             double value = 0);

/// Returns all windows of `size` neighbors along `axis`, `step` apart: x (…, n, …) -> (…, windows, …, size).
Variable unfold(const Variable& x, int axis, std::int64_t size, std::int64_t step);
struct UnfoldOptions {
  Extent2 kernel = 1;
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 dilation = 1;
};
/// Returns the windows of images (im2col): x (N, H, W, C) -> (N, windows, kernel height * kernel width * C), with zeros
/// as padding. A convolution is the product of the windows with the filters (K, R, S, C), reshaped to (K, R S C).
Variable unfold2d(const Variable& x, const UnfoldOptions& options);
/// Adds up windows to images of `size` (col2im): the transpose of unfold2d() as a linear map.
Variable fold2d(const Variable& x, Extent2 size, const UnfoldOptions& options);

/// Returns the elements x[…, i, …, i + offset, …] of two axes as a new last axis.
Variable diagonal(const Variable& x, std::int64_t offset = 0, int first = 0, int second = 1);
/// Returns zeros with the last axis of x as the diagonal of two new axes.
Variable diag_embed(const Variable& x, std::int64_t offset = 0, int first = -2, int second = -1);

/// Removes all axes of extent 1, or the given axis if its extent is 1.
Variable squeeze(const Variable& x);
Variable squeeze(const Variable& x, int axis);
/// Adds an axis of extent 1 before `axis`; -1: at the end.
Variable unsqueeze(const Variable& x, int axis);
/// Moves axes from[i] to the positions to[i]; the other axes keep their order.
Variable movedim(const Variable& x, const std::vector<int>& from, const std::vector<int>& to);
Variable swapaxes(const Variable& x, int a, int b);
/// Splits one axis into several; one extent may be -1.
Variable unflatten(const Variable& x, int axis, const std::vector<std::int64_t>& extents);

/// Joins tensors of one shape along a new axis.
Variable stack(std::span<const Variable> parts, int axis = 0);
inline Variable stack(std::initializer_list<Variable> parts, int axis = 0) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}
/// hstack() concatenates along axis 1 (axis 0 if the rank is below 2). vstack() concatenates along axis 0; tensors of
/// rank 1 become rows.
Variable hstack(std::span<const Variable> parts);
Variable vstack(std::span<const Variable> parts);

/// Split x along `axis` into at most 65,536 parts. split(): parts of `size` (the last may be smaller), or of the given
/// sizes. chunk(): `count` parts of equal size (the last may be smaller, and there may be fewer). unbind(): slices of
/// one position, without the axis. tensor_split(): `count` parts whose sizes differ by at most 1, or parts that begin
/// at the given positions.
std::vector<Variable> split(const Variable& x, std::int64_t size, int axis = 0);
std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int axis = 0);
std::vector<Variable> chunk(const Variable& x, std::int64_t count, int axis = 0);
std::vector<Variable> unbind(const Variable& x, int axis = 0);
std::vector<Variable> tensor_split(const Variable& x, std::int64_t count, int axis = 0);
std::vector<Variable> tensor_split(const Variable& x, const std::vector<std::int64_t>& positions, int axis = 0);

/// Returns the same bits as another dtype (Tensor.view(dtype) in PyTorch), as a copy without a gradient. If the sizes
/// of the dtypes differ, the last extent changes.
Variable bitcast(const Variable& x, DType dtype);

}  // namespace binade
