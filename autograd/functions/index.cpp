#include "binade/autograd/functions/index.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/order.h"
#include "binade/core/ops/rearrange.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

Scattering scattering_of(ScatterReduce reduce) {
  switch (reduce) {
    case ScatterReduce::kMean: return Scattering::kMean;
    case ScatterReduce::kProd: return Scattering::kProduct;
    case ScatterReduce::kAmax: return Scattering::kLargest;
    case ScatterReduce::kAmin: return Scattering::kSmallest;
    case ScatterReduce::kSum: break;
  }
  return Scattering::kAdd;
}

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

/// Returns the source, cropped to the shape of a smaller index. A source that does not fit is returned unchanged, and
/// the op refuses it.
Variable part_for(const Variable& source, const Shape& index) {
  if (source.value().rank() != index.rank()) return source;
  Variable part = source;
  for (int d = 0; d < index.rank(); ++d)
    if (source.dim(d) > index[d]) part = narrow(part, d, 0, index[d]);
  return part;
}

Variable scattered(const char* name, const Variable& x, int axis, const Variable& index, const Variable& source,
                   Scattering how, bool include_self = true, bool by_row = false) {
  return apply_one<ops::Scatter>(
      {.axis = axis, .how = how, .include_self = include_self, .by_row = by_row, .name = name}, {x, index, source});
}

/// Returns a scalar of the dtype of x, on its device.
Variable scalar_like(const char* name, const Variable& x, double value) {
  ops::check_fits(name, value, x.dtype());
  return Tensor::scalar(value, x.dtype(), x.device());
}

Variable flat(const Variable& x) { return reshape(x, {x.value().numel()}); }

/// Throws DTypeError unless the mask is u8 or bool.
void check_mask(const char* name, const Variable& mask) {
  check<DTypeError>(mask.dtype() == DType::boolean || mask.dtype() == DType::u8,
                    "{}: wanted a mask of u8 or bool, got {}; compare it, as in mask != 0", where(name), name_of(mask.dtype()));
}

/// Returns the segment number of each position, on `device`, for consecutive segments of the given lengths.
Tensor segments_of(const std::vector<std::int64_t>& lengths, Device device) {
  std::vector<std::int64_t> segment;
  for (std::size_t s = 0; s < lengths.size(); ++s)
    segment.insert(segment.end(), static_cast<std::size_t>(lengths[s]), static_cast<std::int64_t>(s));
  return Tensor::from(segment, Shape{static_cast<std::int64_t>(segment.size())}).to(device);
}

/// Returns whole numbers from a tensor of rank 1.
std::vector<std::int64_t> numbers_of(const char* name, const char* what, const Variable& x) {
  check<ShapeError>(x.value().rank() == 1 && (x.dtype() == DType::i64 || x.dtype() == DType::i32),
                    "{}: wanted {} of i64 or i32 and rank 1, got {} of shape {}", where(name), what, name_of(x.dtype()),
                    x.shape());
  return x.value().to_vector<std::int64_t>();
}

/// Combines the slices of x along axis 0 into (segments, …). An empty segment gives `start`.
Variable reduced(const char* name, const Variable& x, const Tensor& segment, std::int64_t segments, Scattering how,
                 double start) {
  const Tensor to = Tensor::full(x.shape().with_dim(0, segments), start, x.dtype(), x.device());
  return scattered(name, to, 0, segment, x, how, false, true);
}

}  // namespace

Variable take_along_dim(const Variable& x, const Variable& index, int axis) {
  const int rank = x.value().rank(), at = ops::checked_axis("take_along_dim", axis, rank);
  check<ShapeError>(index.value().rank() == rank, "{}: wanted an index of rank {}, got {}", where("take_along_dim"),
                    rank, index.shape());
  const Shape other = broadcast(x.shape().with_dim(at, 1), index.shape().with_dim(at, 1), "take_along_dim");
  return apply_one<ops::Gather>({.axis = at, .name = "take_along_dim"},
                                {expand(x, dims_of(other.with_dim(at, x.dim(at)))),
                                 expand(index, dims_of(other.with_dim(at, index.dim(at))))});
}

Variable take(const Variable& x, const Variable& index) {
  const Variable elements = flat(x);
  const Tensor positions = ops::linear_index("take", {index.value()}, elements.shape());
  const Tensor row = positions.reshape(Shape{positions.numel()});
  return reshape(apply_one<ops::IndexSelect>({.axis = 0, .name = "take"}, {elements, row}), dims_of(positions.shape()));
}

Variable scatter(const Variable& x, int axis, const Variable& index, const Variable& source) {
  return scattered("scatter", x, axis, index, part_for(source, index.shape()), Scattering::kAssign);
}
Variable scatter(const Variable& x, int axis, const Variable& index, double value) {
  return scattered("scatter", x, axis, index, scalar_like("scatter", x, value), Scattering::kAssign);
}
Variable scatter_add(const Variable& x, int axis, const Variable& index, const Variable& source) {
  return scattered("scatter_add", x, axis, index, part_for(source, index.shape()), Scattering::kAdd);
}
Variable scatter_reduce(const Variable& x, int axis, const Variable& index, const Variable& source,
                        ScatterReduce reduce, bool include_self) {
  return scattered("scatter_reduce", x, axis, index, part_for(source, index.shape()), scattering_of(reduce),
                   include_self);
}

Variable index_add(const Variable& x, int axis, const Variable& index, const Variable& source, double alpha) {
  constexpr const char* kName = "index_add";
  const auto terms = [&]() -> Variable {
    if (alpha == 1) return source;
    if (is_floating(source.dtype())) return source * alpha;
    check<ArgumentError>(alpha >= -0x1p63 && alpha < 0x1p63 && alpha == std::floor(alpha),
                         "{}: wanted a whole alpha for a source of {}, got {}", where(kName), name_of(source.dtype()),
                         alpha);
    return cast(source * static_cast<std::int64_t>(alpha), source.dtype());
  };
  return scattered(kName, x, axis, index, terms(), Scattering::kAdd, true, true);
}
Variable index_copy(const Variable& x, int axis, const Variable& index, const Variable& source) {
  return scattered("index_copy", x, axis, index, source, Scattering::kAssign, true, true);
}
Variable index_fill(const Variable& x, int axis, const Variable& index, double value) {
  return scattered("index_fill", x, axis, index, scalar_like("index_fill", x, value), Scattering::kAssign, true, true);
}
Variable index_reduce(const Variable& x, int axis, const Variable& index, const Variable& source, ScatterReduce reduce,
                      bool include_self) {
  return scattered("index_reduce", x, axis, index, source, scattering_of(reduce), include_self, true);
}

namespace {

/// Operands of index() and index_put(): x with the indexed axes merged into one, and positions along that axis.
struct Indexed {
  Variable joined;  // (positions, other axes)
  Tensor row;       // (n)
  std::vector<std::int64_t> result;
};

Indexed indexed(const char* name, const Variable& x, const std::vector<Variable>& indices) {
  std::vector<Tensor> tensors;
  for (const Variable& i : indices) tensors.push_back(i.defined() ? i.value() : Tensor());
  const Tensor positions = ops::linear_index(name, tensors, x.shape());
  const auto first = x.shape().dims().first(indices.size());
  std::vector<std::int64_t> joined{Shape(first).numel()}, result = dims_of(positions.shape());
  for (int d = static_cast<int>(indices.size()); d < x.value().rank(); ++d) {
    joined.push_back(x.dim(d));
    result.push_back(x.dim(d));
  }
  return {reshape(x, joined), positions.reshape(Shape{positions.numel()}), result};
}

}  // namespace

Variable index(const Variable& x, const std::vector<Variable>& indices) {
  const Indexed i = indexed("index", x, indices);
  return reshape(apply_one<ops::IndexSelect>({.axis = 0, .name = "index"}, {i.joined, i.row}), i.result);
}

Variable index_put(const Variable& x, const std::vector<Variable>& indices, const Variable& values, bool accumulate) {
  const Indexed i = indexed("index_put", x, indices);
  std::vector<std::int64_t> dims = dims_of(i.joined.shape());
  dims[0] = i.row.numel();
  const Variable source = reshape(expand(values, i.result), dims);
  const Variable y = scattered("index_put", i.joined, 0, i.row, source,
                               accumulate ? Scattering::kAdd : Scattering::kAssign, true, true);
  return reshape(y, dims_of(x.shape()));
}

Variable nonzero(const Variable& x) { return ops::coordinates_of(ops::nonzero_positions(x.value()), x.shape()); }

Variable masked_select(const Variable& x, const Variable& mask) {
  check_mask("masked_select", mask);
  const std::vector<std::int64_t> dims = dims_of(broadcast(x.shape(), mask.shape(), "masked_select"));
  const Tensor positions = ops::nonzero_positions(expand(mask, dims).value());
  return apply_one<ops::IndexSelect>({.axis = 0, .name = "masked_select"}, {flat(expand(x, dims)), positions});
}

Variable masked_fill(const Variable& x, const Variable& mask, double value) {
  check_mask("masked_fill", mask);
  const Variable wide = expand(mask, dims_of(x.shape())), fill = scalar_like("masked_fill", x, value);
  if (is_floating(x.dtype())) return where(wide, fill, x);
  const Tensor positions = ops::nonzero_positions(wide.value());
  return reshape(scattered("masked_fill", flat(x), 0, positions, fill, Scattering::kAssign, true, true),
                 dims_of(x.shape()));
}

Variable embedding_bag(const Variable& weight, const Variable& indices, const Variable& offsets, BagMode mode,
                       const Variable& row_weights) {
  constexpr const char* kName = "embedding_bag";
  check<ShapeError>(weight.value().rank() == 2, "{}: wanted a weight of shape (V, D), got {}", where(kName),
                    weight.shape());
  const int rank = indices.value().rank();
  check<ShapeError>(rank == (offsets.defined() ? 1 : 2),
                    "{}: wanted indices (n) with offsets or indices (bags, m) without, got {} {} offsets", where(kName),
                    indices.shape(), offsets.defined() ? "with" : "without");
  const std::int64_t count = indices.value().numel();
  std::vector<std::int64_t> lengths;
  if (offsets.defined()) {
    const std::vector<std::int64_t> begin = numbers_of(kName, "offsets", offsets);
    for (std::size_t b = 0; b < begin.size(); ++b) {
      const std::int64_t end = b + 1 < begin.size() ? begin[b + 1] : count;
      check<DataError>(begin[b] >= 0 && begin[b] <= end && end <= count && (b > 0 || begin[b] == 0),
                       "{}: wanted offsets from 0 up to {} in ascending order, got {} at position {}", where(kName),
                       count, begin[b], b);
      lengths.push_back(end - begin[b]);
    }
    check<DataError>(!lengths.empty() || count == 0, "{}: wanted an offset for the {} indices, got none", where(kName),
                     count);
  } else if (count > 0) {
    lengths.assign(static_cast<std::size_t>(indices.dim(0)), indices.dim(1));
  }
  const std::int64_t bags = offsets.defined() ? offsets.dim(0) : indices.dim(0);
  Variable rows = apply_one<ops::IndexSelect>({.axis = 0, .name = kName}, {weight, flat(indices)});
  if (row_weights.defined()) {
    check<ArgumentError>(mode == BagMode::kSum, "{}: row_weights need BagMode::kSum", where(kName));
    check<ShapeError>(row_weights.shape() == indices.shape(), "{}: wanted a row weight for each index {}, got {}",
                      where(kName), indices.shape(), row_weights.shape());
    rows = rows * reshape(row_weights, {count, 1});
  }
  const Scattering how = mode == BagMode::kSum    ? Scattering::kAdd
                         : mode == BagMode::kMean ? Scattering::kMean
                                                  : Scattering::kLargest;
  return reduced(kName, rows, segments_of(lengths, weight.device()), bags, how, 0);
}

Variable segment_reduce(const Variable& x, const Variable& lengths, ScatterReduce reduce) {
  constexpr const char* kName = "segment_reduce";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::int64_t> counts = numbers_of(kName, "lengths", lengths);
  check<ShapeError>(x.value().rank() > 0 && is_floating(x.dtype()),
                    "{}: wanted floating values with an axis, got {} {}", where(kName), name_of(x.dtype()), x.shape());
  std::int64_t left = x.dim(0);
  for (std::size_t s = 0; s < counts.size(); ++s) {
    check<DataError>(counts[s] >= 0 && counts[s] <= left,
                     "{}: wanted lengths of 0 or more that add up to {}, got {} at {}", where(kName), x.dim(0),
                     counts[s], s);
    left -= counts[s];
  }
  check<DataError>(left == 0, "{}: wanted lengths that add up to {}, got {}", where(kName), x.dim(0), x.dim(0) - left);
  const Scattering how = scattering_of(reduce);
  const double start = how == Scattering::kProduct    ? 1
                       : how == Scattering::kMean     ? std::numeric_limits<double>::quiet_NaN()
                       : how == Scattering::kLargest  ? -kInfinity
                       : how == Scattering::kSmallest ? kInfinity
                                                      : 0;
  return reduced(kName, x, segments_of(counts, x.device()), static_cast<std::int64_t>(counts.size()), how, start);
}

Variable gather(const Variable& x, int axis, const Variable& index) {
  return apply_one<ops::Gather>({.axis = axis}, {x, index});
}

Variable index_select(const Variable& x, int axis, const Variable& index) {
  return apply_one<ops::IndexSelect>({.axis = axis, .name = "index_select"}, {x, index});
}

}  // namespace binade
