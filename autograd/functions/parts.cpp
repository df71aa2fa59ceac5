#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/kernels/table.h"
#include "binade/core/ops/move.h"
#include "binade/core/step_context.h"

// Functions of rearrange.h that change shapes, join and cut.
namespace binade {
namespace {

constexpr std::int64_t kMostParts = 1 << 16;

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }
int rank_of(const Variable& x) { return x.value().rank(); }

void check_parts(const char* name, std::int64_t parts) {
  check<ArgumentError>(parts <= kMostParts, "{}: wanted at most {} parts, got {}", where(name), kMostParts, parts);
}

}  // namespace

Variable squeeze(const Variable& x) {
  std::vector<std::int64_t> dims;
  for (const std::int64_t extent : x.shape().dims())
    if (extent != 1) dims.push_back(extent);
  return reshape(x, dims);
}

Variable squeeze(const Variable& x, int axis) {
  const int at = ops::checked_axis("squeeze", axis, rank_of(x) > 0 ? rank_of(x) : 1);
  std::vector<std::int64_t> dims = dims_of(x.shape());
  if (dims.empty() || dims[static_cast<std::size_t>(at)] != 1) return x;
  dims.erase(dims.begin() + at);
  return reshape(x, dims);
}

Variable unsqueeze(const Variable& x, int axis) {
  const int at = ops::checked_axis("unsqueeze", axis, rank_of(x) + 1);
  std::vector<std::int64_t> dims = dims_of(x.shape());
  dims.insert(dims.begin() + at, 1);
  return reshape(x, dims);
}

Variable movedim(const Variable& x, const std::vector<int>& from, const std::vector<int>& to) {
  const int rank = rank_of(x);
  check<ArgumentError>(from.size() == to.size(), "{}: wanted a place for each axis, got {} and {}", where("movedim"),
                       from.size(), to.size());
  std::vector<int> order(static_cast<std::size_t>(rank), -1);
  std::vector<bool> moved(order.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto a = static_cast<std::size_t>(ops::checked_axis("movedim", from[i], rank)),
               b = static_cast<std::size_t>(ops::checked_axis("movedim", to[i], rank));
    check<ArgumentError>(!moved[a] && order[b] == -1, "{}: wanted different axes and places, got {} to {} again",
                         where("movedim"), from[i], to[i]);
    moved[a] = true;
    order[b] = static_cast<int>(a);
  }
  std::size_t next = 0;
  for (int& axis : order) {
    if (axis != -1) continue;
    while (moved[next]) ++next;
    axis = static_cast<int>(next++);
  }
  return std::ranges::is_sorted(order) ? x : permute(x, order);
}

Variable swapaxes(const Variable& x, int a, int b) { return transpose(x, a, b); }

Variable unflatten(const Variable& x, int axis, const std::vector<std::int64_t>& extents) {
  const int at = ops::checked_axis("unflatten", axis, rank_of(x));
  const std::int64_t whole = x.dim(at);
  const auto bad = [&] {
    return ShapeError(fmt::format("{}: wanted extents for the {} positions of axis {} (one may be -1), got ({})",
                                  where("unflatten"), whole, axis, fmt::join(extents, ", ")));
  };
  std::vector<std::int64_t> known;
  for (const std::int64_t e : extents)
    if (e != -1) known.push_back(e);
  if (extents.empty() || known.size() + 1 < extents.size() || std::ranges::any_of(known, [](auto e) { return e < 0; }))
    throw bad();
  const std::int64_t product = Shape(std::span<const std::int64_t>(known)).numel();
  if (product == 0 ? whole != 0 || known.size() < extents.size()
                   : (known.size() < extents.size() ? whole % product : whole - product) != 0)
    throw bad();
  std::vector<std::int64_t> dims = dims_of(x.shape());
  dims.erase(dims.begin() + at);
  for (std::size_t i = 0; i < extents.size(); ++i)
    dims.insert(dims.begin() + at + static_cast<std::ptrdiff_t>(i), extents[i] == -1 ? whole / product : extents[i]);
  return reshape(x, dims);
}

Variable stack(std::span<const Variable> parts, int axis) {
  std::vector<Variable> wider;
  for (const Variable& x : parts) wider.push_back(unsqueeze(x, axis));
  return concat(wider, axis);
}

Variable hstack(std::span<const Variable> parts) {
  std::vector<Variable> wider;
  for (const Variable& x : parts) wider.push_back(rank_of(x) == 0 ? unsqueeze(x, 0) : x);
  return concat(wider, !wider.empty() && rank_of(wider[0]) > 1 ? 1 : 0);
}

Variable vstack(std::span<const Variable> parts) {
  std::vector<Variable> wider;
  for (const Variable& x : parts) {
    const Variable row = rank_of(x) == 0 ? unsqueeze(x, 0) : x;
    wider.push_back(rank_of(row) == 1 ? unsqueeze(row, 0) : row);
  }
  return concat(wider, 0);
}

std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int axis) {
  const int at = ops::checked_axis("split", axis, rank_of(x));
  check_parts("split", static_cast<std::int64_t>(sizes.size()));
  std::vector<Variable> parts;
  std::int64_t begin = 0, left = x.dim(at);
  for (const std::int64_t size : sizes) {
    check<ShapeError>(size >= 0 && size <= left, "{}: wanted sizes that add up to {}, got {} with {} left",
                      where("split"), x.dim(at), size, left);
    parts.push_back(narrow(x, at, begin, size));
    begin += size;
    left -= size;
  }
  check<ShapeError>(left == 0, "{}: wanted sizes that add up to {}, got {}", where("split"), x.dim(at), begin);
  return parts;
}

std::vector<Variable> split(const Variable& x, std::int64_t size, int axis) {
  const int at = ops::checked_axis("split", axis, rank_of(x));
  const std::int64_t extent = x.dim(at);
  check<ArgumentError>(size > 0 || (size == 0 && extent == 0), "{}: wanted parts of 1 or more positions, got {}",
                       where("split"), size);
  const std::int64_t parts = extent == 0 ? 1 : (extent - 1) / size + 1;
  check_parts("split", parts);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), size);
  sizes.back() = extent - (parts - 1) * size;
  return split(x, sizes, at);
}

std::vector<Variable> chunk(const Variable& x, std::int64_t count, int axis) {
  const int at = ops::checked_axis("chunk", axis, rank_of(x));
  check<ArgumentError>(count > 0, "{}: wanted 1 or more parts, got {}", where("chunk"), count);
  return split(x, x.dim(at) == 0 ? 0 : (x.dim(at) - 1) / count + 1, at);
}

std::vector<Variable> unbind(const Variable& x, int axis) {
  const int at = ops::checked_axis("unbind", axis, rank_of(x));
  check_parts("unbind", x.dim(at));
  std::vector<Variable> parts;
  for (std::int64_t i = 0; i < x.dim(at); ++i) parts.push_back(select(x, at, i));
  return parts;
}

std::vector<Variable> tensor_split(const Variable& x, std::int64_t count, int axis) {
  const int at = ops::checked_axis("tensor_split", axis, rank_of(x));
  check<ArgumentError>(count > 0, "{}: wanted 1 or more parts, got {}", where("tensor_split"), count);
  check_parts("tensor_split", count);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), x.dim(at) / count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.dim(at) % count); ++i) ++sizes[i];
  return split(x, sizes, at);
}

std::vector<Variable> tensor_split(const Variable& x, const std::vector<std::int64_t>& positions, int axis) {
  const int at = ops::checked_axis("tensor_split", axis, rank_of(x));
  check_parts("tensor_split", static_cast<std::int64_t>(positions.size()) + 1);
  const std::int64_t extent = x.dim(at);
  std::vector<Variable> parts;
  std::int64_t begin = 0;
  const auto part_until = [&](std::int64_t position) {
    const std::int64_t end = std::clamp<std::int64_t>(
        position < 0 && position >= -extent ? position + extent : position, 0, extent);
    const std::int64_t first = std::min(begin, end);
    parts.push_back(narrow(x, at, begin > end ? end : first, std::max<std::int64_t>(0, end - begin)));
    begin = end;
  };
  for (const std::int64_t position : positions) part_until(position);
  part_until(extent);
  return parts;
}

Variable bitcast(const Variable& any, DType dtype) {
  const Tensor x = any.value().contiguous_copy();
  check<DTypeError>(dtype != DType::boolean || x.dtype() == DType::boolean,
                    "{}: only bools can be read as bools, got {}", where("bitcast"), name_of(x.dtype()));
  const auto from = static_cast<std::int64_t>(size_of(x.dtype())), to = static_cast<std::int64_t>(size_of(dtype));
  Shape shape = x.shape();
  if (from != to) {
    const std::int64_t cols = shape.cols();
    check<ShapeError>(x.rank() > 0 && cols <= ops::kMaxExtent && cols * from % to == 0,
                      "{}: wanted a last extent that {} bytes divide, got {} of {}", where("bitcast"), to, shape,
                      name_of(x.dtype()));
    shape = shape.with_dim(-1, cols * from / to);
  }
  Tensor y = Tensor::empty(shape, dtype, x.device());
  const auto bytes = static_cast<std::int64_t>(y.bytes());
  if (bytes > 0)
    kernels(x.device())
        .box({.element_bytes = 1,
              .outer = 1,
              .inner = bytes,
              .from = x.raw(),
              .from_stride = bytes,
              .to = y.mutable_raw(),
              .to_stride = bytes});
  return y;
}

}  // namespace binade
