#include <algorithm>
#include <numeric>

#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

/// Returns the axes of a node, counted from the start; without axes, the first `count` ones.
std::vector<int> axes_or_all(const Integers& axes, int rank, std::size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  unsupported_if(!axes.empty() && axes.size() != count, "axes: wanted as many as there are other numbers");
  unsupported_if(axes.empty() && count > static_cast<std::size_t>(rank), "more numbers than axes");
  if (!axes.empty())
    std::transform(axes.begin(), axes.end(), all.begin(), [rank](std::int64_t a) { return from_start(a, rank); });
  return all;
}

/// The argument of pad(), which names the last axis first, for extents to add before and after each axis.
Integers last_axis_first(const Integers& before, const Integers& after) {
  Integers padding;
  for (std::size_t i = before.size(); i-- > 0;) padding.insert(padding.end(), {before[i], after[i]});
  return padding;
}

Variable padded(const Node& n) {
  const int rank = rank_of(n[0]);
  const Integers pads = n.list(1);
  unsupported_if(pads.size() % 2 != 0 || (!n.has(3) && pads.size() != 2 * static_cast<std::size_t>(rank)),
                 "pads: wanted two numbers for each axis");
  const std::vector<int> axes = axes_or_all(n.has(3) ? n.list(3) : Integers{}, rank, pads.size() / 2);
  Integers before(static_cast<std::size_t>(rank)), after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    before[static_cast<std::size_t>(axes[i])] = pads[i];
    after[static_cast<std::size_t>(axes[i])] = pads[i + axes.size()];
  }
  const std::string mode = n.text("mode", "constant");
  unsupported_if(mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap", "mode " + mode);
  return pad(n[0], last_axis_first(before, after),
             mode == "edge"      ? PadMode::kReplicate
             : mode == "reflect" ? PadMode::kReflect
             : mode == "wrap"    ? PadMode::kCircular
                                 : PadMode::kConstant,
             n.has(2) ? n[2].item() : 0);
}

/// Pads or crops around the center: negative padding crops.
Variable centered(const Node& n) {
  const Integers wanted = n.list(1), extents = dims_of(n[0]);
  const std::vector<int> axes = axes_or_all(n.integers("axes"), rank_of(n[0]), wanted.size());
  Integers before(extents.size()), after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const std::int64_t more = wanted[i] - extents[axis];
    before[axis] = more / 2;
    after[axis] = more - more / 2;
  }
  return pad(n[0], last_axis_first(before, after));
}

Variable part(const Node& n) {
  const Integers begins = n.list(1), ends = n.list(2);
  const Integers steps = n.has(4) ? n.list(4) : Integers(begins.size(), 1);
  check_count("ends", ends.size(), begins.size());
  check_count("steps", steps.size(), begins.size());
  unsupported_if(std::find(steps.begin(), steps.end(), 0) != steps.end(), "a step of 0");
  const std::vector<int> axes = axes_or_all(n.has(3) ? n.list(3) : Integers{}, rank_of(n[0]), begins.size());
  Variable y = n[0];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = y.dim(axes[i]), last = steps[i] < 0 ? extent - 1 : extent,
                       least = steps[i] < 0 ? -1 : 0;
    const auto position = [&](std::int64_t at) { return std::clamp(at < 0 ? at + extent : at, least, last); };
    const std::int64_t begin = position(begins[i]), end = position(ends[i]);
    if (steps[i] > 0)
      y = begin < end ? slice(y, axes[i], begin, end, steps[i]) : narrow(y, axes[i], begin, 0);
    else
      y = index_select(y, axes[i], arange(begin, end, steps[i]));
  }
  return y;
}

/// Splits a tensor into parts of given sizes, or into `count` parts.
Outputs parts(const Node& n, std::int64_t count) {
  const int axis = from_start(n.integer("axis", 0), rank_of(n[0]));
  unsupported_if(count < 1, "a split into no parts");
  if (n.has(1) && rank_of(n[1]) == 1) return split(n[0], n.list(1), axis);
  const std::int64_t size = n.has(1) ? n.whole(1) : (n[0].dim(axis) + count - 1) / count;
  return split(n[0], size, axis);
}

Outputs sequence_of_parts(const Node& n) {
  const int axis = static_cast<int>(n.integer("axis", 0));
  return n.has(1) || n.integer("keepdims", 1) != 0 ? parts(n, n[0].dim(axis)) : unbind(n[0], axis);
}

Variable reshaped(const Node& n) {
  Integers dims = n.list(1);
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 0 && n.integer("allowzero", 0) == 0 && static_cast<int>(i) < rank_of(n[0]))
      dims[i] = n[0].dim(static_cast<int>(i));
  return reshape(n[0], dims);
}

Variable flattened(const Node& n) {
  const Integers dims = dims_of(n[0]);
  const std::int64_t given = n.integer("axis", 1);  // may be the rank
  const auto axis = given == rank_of(n[0]) ? dims.size() : static_cast<std::size_t>(from_start(given, rank_of(n[0])));
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < axis; ++i) rows *= dims[i];
  return reshape(n[0], {rows, rows == 0 ? 0 : n[0].shape().numel() / rows});
}

Variable with_axes(const Node& n, bool add) {
  Integers axes = n.has(1) ? n.list(1) : n.integers("axes");
  if (axes.empty()) return add ? n[0] : squeeze(n[0]);
  const int rank = rank_of(n[0]) + (add ? static_cast<int>(axes.size()) : 0);
  for (std::int64_t& axis : axes) axis = from_start(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (!add) std::reverse(axes.begin(), axes.end());
  Variable y = n[0];
  for (const std::int64_t axis : axes)
    y = add ? unsqueeze(y, static_cast<int>(axis)) : squeeze(y, static_cast<int>(axis));
  return y;
}

Variable transposed(const Node& n) {
  std::vector<int> order = as_axes(n.integers("perm"));
  for (int i = rank_of(n[0]); order.size() < static_cast<std::size_t>(rank_of(n[0]));) order.push_back(--i);
  return permute(n[0], order);
}

Variable extents(const Node& n) {
  const Integers dims = dims_of(n[0]);
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto position = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t begin = position(n.integer("start", 0)), end = std::max(begin, position(n.integer("end", rank)));
  return Tensor::from(Integers(dims.begin() + begin, dims.begin() + end), Shape{end - begin});
}

Variable range(const Node& n) {
  const DType dtype = n[0].dtype();
  if (is_floating(dtype)) return arange(n[0].item(), n[1].item(), n[2].item(), dtype);
  return arange(n.whole(0), n.whole(1), n.whole(2), dtype);
}

Variable identity_matrix(const Node& n) {
  const DType dtype = n.dtype("dtype", n[0].dtype());
  const std::int64_t k = n.integer("k", 0);
  return k == 0 ? Variable(eye(n[0].dim(0), n[0].dim(1), dtype))
                : tril(triu(Tensor::full(n[0].shape(), 1, dtype), k), k);
}

Variable triangle(const Node& n) {
  const std::int64_t k = n.has(1) ? n.whole(1) : 0;
  return n.integer("upper", 1) != 0 ? triu(n[0], k) : tril(n[0], k);
}

std::int64_t block_size(const Node& n) {
  const std::int64_t b = n.integer("blocksize", 1);
  unsupported_if(b < 1 || b > 65536 || rank_of(n[0]) != 4, "blocks of this size, or no image");
  return b;
}

/// Moves channels to positions; the mode CRD orders channels like pixel_shuffle().
Variable depth_to_space(const Node& n) {
  const std::int64_t b = block_size(n), c = n[0].dim(1) / (b * b), h = n[0].dim(2), w = n[0].dim(3);
  if (n.text("mode", "DCR") == "CRD") return channels_first(pixel_shuffle(channels_last(n[0]), b));
  return reshape(permute(reshape(n[0], {-1, b, b, c, h, w}), {0, 3, 4, 1, 5, 2}), {n[0].dim(0), c, h * b, w * b});
}

Variable space_to_depth(const Node& n) {
  const std::int64_t b = block_size(n), c = n[0].dim(1), h = n[0].dim(2) / b, w = n[0].dim(3) / b;
  if (n.text("mode", "DCR") == "CRD") return channels_first(pixel_unshuffle(channels_last(n[0]), b));
  return reshape(permute(reshape(n[0], {-1, c, h, b, w, b}), {0, 3, 5, 1, 2, 4}), {n[0].dim(0), c * b * b, h, w});
}

/// Reverses the first lengths[i] positions of sample i.
Variable reversed(const Node& n) {
  const int batch = static_cast<int>(n.integer("batch_axis", 1)), time = static_cast<int>(n.integer("time_axis", 0));
  const Variable x = movedim(n[0], {batch, time}, {0, 1}), lengths = unsqueeze(n[1], 1), t = arange(x.dim(1));
  Variable index = where(t < lengths, lengths - 1 - t, t);
  while (rank_of(index) < rank_of(x)) index = unsqueeze(index, -1);
  return movedim(take_along_dim(x, index, 1), {0, 1}, {batch, time});
}

Variable constant(const Node& n) {
  if (const Variable value = n.tensor("value"); value.defined()) return value;
  if (n.given("value_float")) return Tensor::scalar(n.number("value_float", 0));
  if (n.given("value_int")) return Tensor::from(Integers{n.integer("value_int", 0)}, Shape{});
  if (n.given("value_floats")) {
    const std::vector<double> numbers = n.numbers("value_floats");
    const std::vector<float> values(numbers.begin(), numbers.end());
    return Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())});
  }
  const Integers values = n.integers("value_ints");
  unsupported_if(!n.given("value_ints"), "a constant of this kind");
  return Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())});
}

Variable constant_of_shape(const Node& n) {
  const Variable value = n.tensor("value");
  const Variable zeros = Tensor::full(Shape(n.list(0)), 0, value.defined() ? value.dtype() : DType::f32);
  return value.defined() ? zeros + reshape(value, {}) : zeros;  // a sum, because full() takes a double
}

Variable joined(const Node& n) {
  const std::vector<Variable> inputs = n.all();
  const int axis = static_cast<int>(n.integer("axis", 0));
  return n.integer("new_axis", 0) != 0 ? stack(inputs, axis) : concat(inputs, axis);
}

}  // namespace

Table shape_nodes() {
  return {
      {"CenterCropPad", one(centered)},
      {"Concat", one(joined)},
      {"ConcatFromSequence", one(joined)},
      {"Constant", one(constant)},
      {"ConstantOfShape", one(constant_of_shape)},
      {"DepthToSpace", one(depth_to_space)},
      {"Expand", one([](const Node& n) {
         const Shape both = broadcast(n[0].shape(), Shape(n.list(1)), "Expand");
         return broadcast_to(n[0], {both.dims().begin(), both.dims().end()});
       })},
      {"EyeLike", one(identity_matrix)},
      {"Flatten", one(flattened)},
      {"Pad", one(padded)},
      {"Range", one(range)},
      {"Reshape", one(reshaped)},
      {"ReverseSequence", one(reversed)},
      {"Shape", one(extents)},
      {"Size", one([](const Node& n) {
         return Variable(Tensor::scalar(static_cast<double>(n[0].shape().numel()), DType::i64));
       })},
      {"Slice", one(part)},
      {"SpaceToDepth", one(space_to_depth)},
      {"Split", [](const Node& n) { return parts(n, n.integer("num_outputs", n.outputs())); }},
      {"SplitToSequence", sequence_of_parts},
      {"Squeeze", one([](const Node& n) { return with_axes(n, false); })},
      {"Unsqueeze", one([](const Node& n) { return with_axes(n, true); })},
      {"Tile", one([](const Node& n) { return tile(n[0], n.list(1)); })},
      {"Transpose", one(transposed)},
      {"Trilu", one(triangle)},
  };
}

}  // namespace binade::onnx
