#include "binade/autograd/functions/pieces.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/make.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/make.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/move.h"
#include "binade/core/ops/order.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }
int rank_of(const Variable& x) { return x.value().rank(); }
Variable flat(const Variable& x) { return reshape(x, {x.value().numel()}); }

void check_piece(const char* name, const Variable& x, const Variable& source, const Shape& piece) {
  check<ShapeError>(source.shape() == piece, "{}: wanted a source {}, got {}", where(name), piece, source.shape());
  check<DTypeError>(source.dtype() == x.dtype(), "{}: wanted a source of {}, got {}", where(name), name_of(x.dtype()),
                    name_of(source.dtype()));
}

/// Throws ArgumentError if there is nothing to join.
void check_parts(const char* name, std::span<const Variable> parts) {
  check<ArgumentError>(!parts.empty(), "{}: wanted at least one tensor, got none", where(name));
}

}  // namespace

Variable atleast_1d(const Variable& x) { return rank_of(x) > 0 ? x : unsqueeze(x, 0); }
Variable atleast_2d(const Variable& x) { return rank_of(x) > 1 ? x : unsqueeze(atleast_1d(x), 0); }
Variable atleast_3d(const Variable& x) { return rank_of(x) > 2 ? x : unsqueeze(atleast_2d(x), -1); }

std::vector<Variable> broadcast_tensors(std::span<const Variable> parts) {
  check_parts("broadcast_tensors", parts);
  Shape shape = parts[0].shape();
  for (const Variable& x : parts) shape = broadcast(shape, x.shape(), "broadcast_tensors");
  std::vector<Variable> wide;
  for (const Variable& x : parts) wide.push_back(expand(x, dims_of(shape)));
  return wide;
}

Variable column_stack(std::span<const Variable> parts) {
  check_parts("column_stack", parts);
  std::vector<Variable> columns;
  for (const Variable& x : parts) columns.push_back(rank_of(x) > 1 ? x : unsqueeze(atleast_1d(x), 1));
  return concat(columns, 1);
}

Variable dstack(std::span<const Variable> parts) {
  check_parts("dstack", parts);
  std::vector<Variable> planes;
  for (const Variable& x : parts) planes.push_back(atleast_3d(x));
  return concat(planes, 2);
}

Variable pad_sequence(std::span<const Variable> sequences, double value) {
  constexpr const char* kName = "pad_sequence";
  check_parts(kName, sequences);
  std::int64_t longest = 0;
  for (const Variable& x : sequences) {
    check<ShapeError>(rank_of(x) >= 1 && x.shape().with_dim(0, 0) == sequences[0].shape().with_dim(0, 0),
                      "{}: wanted sequences (L, …) that differ in length only, got {} and {}", where(kName),
                      sequences[0].shape(), x.shape());
    longest = std::max(longest, x.dim(0));
  }
  std::vector<Variable> padded;
  for (const Variable& x : sequences) {
    std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * rank_of(x)), 0);  // axis 0 comes last
    padding.back() = longest - x.dim(0);
    padded.push_back(pad(x, padding, PadMode::kConstant, value));
  }
  return stack(padded);
}

Variable select_scatter(const Variable& x, const Variable& source, int axis, std::int64_t i) {
  constexpr const char* kName = "select_scatter";
  const int at = ops::checked_axis(kName, axis, rank_of(x));
  const std::int64_t extent = x.dim(at);
  check<ArgumentError>(i >= -extent && i < extent, "{}: wanted a position in [{}, {}) of axis {}, got {}", where(kName),
                       -extent, extent, axis, i);
  std::vector<std::int64_t> dims = dims_of(x.shape());
  dims.erase(dims.begin() + at);
  check_piece(kName, x, source, Shape(std::span<const std::int64_t>(dims)));
  const Tensor position = Tensor::full(Shape{1}, static_cast<double>(i < 0 ? i + extent : i), DType::i64, x.device());
  return index_copy(x, at, position, unsqueeze(source, at));
}

Variable slice_scatter(const Variable& x, const Variable& source, int axis, std::int64_t begin, std::int64_t end,
                       std::int64_t step) {
  constexpr const char* kName = "slice_scatter";
  const int at = ops::checked_axis(kName, axis, rank_of(x));
  check<ArgumentError>(step > 0, "{}: wanted a step above 0, got {}", where(kName), step);
  const std::int64_t extent = x.dim(at), first = begin < 0 ? begin + extent : begin,
                     last = end < 0 ? end + extent : end;
  check<ShapeError>(first >= 0 && first <= last && last <= extent,
                    "{}: wanted a range inside dimension {} of {}, got {} to {}", where(kName), axis, x.shape(), begin,
                    end);
  const Tensor positions = arange(first, last, std::min(step, extent + 1), DType::i64, x.device());
  check_piece(kName, x, source, x.shape().with_dim(at, positions.numel()));
  return index_copy(x, at, positions, source);
}

Variable diagonal_scatter(const Variable& x, const Variable& source, std::int64_t offset, int first, int second) {
  constexpr const char* kName = "diagonal_scatter";
  const int a = ops::checked_axis(kName, first, rank_of(x)), b = ops::checked_axis(kName, second, rank_of(x));
  check<ArgumentError>(a != b, "{}: wanted two different axes, got {} twice", where(kName), a);
  const std::int64_t height = x.dim(a), width = x.dim(b);
  check<ShapeError>(height <= ops::kMaxExtent && width <= ops::kMaxExtent, "{}: wanted extents of at most {}, got {}",
                    where(kName), ops::kMaxExtent, x.shape());
  check<ArgumentError>(offset >= -ops::kMaxExtent && offset <= ops::kMaxExtent,
                       "{}: wanted an offset of at most {} on either side, got {}", where(kName), ops::kMaxExtent,
                       offset);
  const std::int64_t row = std::max<std::int64_t>(0, -offset), column = std::max<std::int64_t>(0, offset);
  const std::int64_t count = std::max<std::int64_t>(0, std::min(height - row, width - column));
  const Variable planes = flatten(movedim(x, {a, b}, {-2, -1}), -2, -1);  // (…, height width)
  check_piece(kName, x, source, planes.shape().with_dim(-1, count));
  const std::int64_t begin = row * width + column, step = width + 1;
  const Tensor positions = arange(begin, begin + count * step, step, DType::i64, x.device());
  const Variable y = index_copy(planes, rank_of(planes) - 1, positions, source);
  return movedim(unflatten(y, -1, {height, width}), {-2, -1}, {a, b});
}

Variable masked_scatter(const Variable& x, const Variable& mask, const Variable& source) {
  constexpr const char* kName = "masked_scatter";
  check<DTypeError>(mask.dtype() == DType::boolean || mask.dtype() == DType::u8,
                    "{}: wanted a mask of u8 or bool, got {}; compare it, as in mask != 0", where(kName), name_of(mask.dtype()));
  check<DTypeError>(source.dtype() == x.dtype(), "{}: wanted a source of {}, got {}", where(kName), name_of(x.dtype()),
                    name_of(source.dtype()));
  const Tensor positions = ops::nonzero_positions(expand(mask, dims_of(x.shape())).value());
  check<ShapeError>(source.value().numel() >= positions.numel(),
                    "{}: wanted a source of {} elements or more, one for each place of the mask, got {}", where(kName),
                    positions.numel(), source.shape());
  const Variable y = index_copy(flat(x), 0, positions, narrow(flat(source), 0, 0, positions.numel()));
  return reshape(y, dims_of(x.shape()));
}

Variable cartesian_prod(std::span<const Variable> vectors) {
  check_parts("cartesian_prod", vectors);
  for (const Variable& x : vectors)
    check<ShapeError>(rank_of(x) == 1, "{}: wanted vectors (n), got {}", where("cartesian_prod"), x.shape());
  if (vectors.size() == 1) return vectors[0];
  std::vector<Variable> columns;
  for (const Variable& x : meshgrid(vectors)) columns.push_back(flat(x));
  return stack(columns, 1);
}

Variable combinations(const Variable& x, std::int64_t count, bool replacement) {
  constexpr const char* kName = "combinations";
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  check<ShapeError>(rank_of(x) == 1, "{}: wanted a vector (n), got {}", where(kName), x.shape());
  check<ArgumentError>(count >= 1 && count <= 1024, "{}: wanted 1 to 1,024 elements of a choice, got {}", where(kName),
                       count);
  const std::int64_t n = x.dim(0);
  // The number of choices, a binomial coefficient, is exact up to kMost. Without replacement, `count` and n - count
  // give the same coefficient. With the smaller one, every partial product is at most the result.
  const std::int64_t factors = replacement ? count : std::min(count, n - count);
  double choices = (replacement ? n > 0 : n >= count) ? 1 : 0;
  for (std::int64_t i = 0; i < factors && choices <= static_cast<double>(kMost); ++i)
    choices = choices * static_cast<double>(replacement ? n + i : n - i) / static_cast<double>(i + 1);
  check<ShapeError>(choices * static_cast<double>(count) <= static_cast<double>(kMost),
                    "{}: wanted at most 2^31 elements in all choices, got {} of {}", where(kName), count, x.shape());
  const auto rows = static_cast<std::int64_t>(std::llround(choices));
  Tensor positions = Tensor::empty(Shape{rows * count}, DType::i64);
  std::int64_t* to = positions.mutable_data<std::int64_t>();
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(count), 0);
  if (!replacement) std::iota(chosen.begin(), chosen.end(), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    to = std::copy(chosen.begin(), chosen.end(), to);
    // The next choice in lexicographic order: the last position whose number can still grow is incremented, and the
    // later ones get the smallest numbers allowed after it.
    std::int64_t at = count - 1;
    while (at >= 0 && chosen[static_cast<std::size_t>(at)] == (replacement ? n - 1 : n - count + at)) --at;
    if (at < 0) break;
    std::int64_t value = ++chosen[static_cast<std::size_t>(at)];
    for (std::int64_t later = at + 1; later < count; ++later)
      chosen[static_cast<std::size_t>(later)] = replacement ? value : ++value;
  }
  return reshape(index_select(x, 0, positions.to(x.device())), {rows, count});
}

}  // namespace binade
