#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

/// Converts an index that may count from the end to positions from 0. Positions outside of the axis stay outside, and
/// the function that reads them throws.
Variable positions(const Variable& index, std::int64_t extent) {
  const Variable i = cast(index, DType::i64);
  return where(i < 0, i + extent, i);
}

Variable gathered(const Node& n) {
  const int axis = from_start(n.integer("axis", 0), rank_of(n[0]));
  const Variable y = index_select(n[0], axis, reshape(positions(n[1], n[0].dim(axis)), {-1}));
  Integers dims = dims_of(n[0]);
  const Integers inner = dims_of(n[1]);
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, inner.begin(), inner.end());
  return reshape(y, dims);
}

Variable gathered_nd(const Node& n) {
  std::vector<Variable> indices = unbind(n[1], -1);
  const std::int64_t batches = n.integer("batch_dims", 0);
  unsupported_if(batches > 1, "index() has no batch axes");
  if (batches == 1) {
    Integers dims(static_cast<std::size_t>(rank_of(n[1]) - 1), 1);
    dims[0] = n[0].dim(0);
    indices.insert(indices.begin(), reshape(arange(dims[0]), dims));
  }
  return index(n[0], indices);
}

Variable taken(const Node& n) {
  const Variable chosen = reshape(nonzero(n[1]), {-1});
  if (!n.given("axis")) return take(n[0], chosen);
  return index_select(n[0], static_cast<int>(n.integer("axis", 0)), chosen);
}

ScatterReduce reduction(const std::string& word) {
  return word == "add"   ? ScatterReduce::kSum
         : word == "mul" ? ScatterReduce::kProd
         : word == "max" ? ScatterReduce::kAmax
                         : ScatterReduce::kAmin;
}

Variable scattered(const Node& n) {
  const int axis = from_start(n.integer("axis", 0), rank_of(n[0]));
  const Variable index = positions(n[1], n[0].dim(axis));
  const std::string how = n.text("reduction", "none");
  return how == "none" ? scatter(n[0], axis, index, n[2]) : scatter_reduce(n[0], axis, index, n[2], reduction(how));
}

/// index_put() has no products and extrema, but index_reduce() has: the first k axes are flattened to rows.
Variable scattered_nd(const Node& n) {
  const std::vector<Variable> indices = unbind(n[1], -1);
  const std::string how = n.text("reduction", "none");
  if (how == "none" || how == "add") return index_put(n[0], indices, n[2], how == "add");
  const Integers dims = dims_of(n[0]);
  unsupported_if(indices.size() > dims.size(), "an index of more axes than there are");
  const auto k = static_cast<std::ptrdiff_t>(indices.size());
  std::int64_t rows = 1;
  for (std::ptrdiff_t i = 0; i < k; ++i) rows *= dims[static_cast<std::size_t>(i)];
  const Variable row = index(reshape(arange(rows), Integers(dims.begin(), dims.begin() + k)), indices);
  Integers flat(dims.begin() + k, dims.end());
  flat.insert(flat.begin(), -1);
  return reshape(index_reduce(reshape(n[0], flat), 0, reshape(row, {-1}), reshape(n[2], flat), reduction(how)), dims);
}

Variable cache_written(const Node& n) {
  const int axis = from_start(n.integer("axis", -2), rank_of(n[0]));
  Integers batch(static_cast<std::size_t>(rank_of(n[0])), 1), time = batch;
  batch[0] = n[0].dim(0);
  time[static_cast<std::size_t>(axis)] = n[1].dim(axis);
  const Variable begin = n.has(2) ? n[2] : Variable(Tensor::zeros({batch[0]}, DType::i64));
  const Variable index = reshape(begin, batch) + reshape(arange(n[1].dim(axis)), time);
  const bool circular = n.text("mode", "linear") == "circular";
  const Variable extent = Tensor::scalar(static_cast<double>(n[0].dim(axis)), DType::i64);
  const Variable position = circular ? remainder(index, extent) : index;
  return scatter(n[0], axis, broadcast_to(position, dims_of(n[1])), n[1]);
}

Variable hot(const Node& n) {
  const std::int64_t depth = static_cast<std::int64_t>(n[1].item());
  const Variable i = cast(n[0], DType::i64), hits = one_hot(where(i < 0, i + depth, i), depth);
  return where(movedim(hits, {-1}, {static_cast<int>(n.integer("axis", -1))}) == 1, n[2][1], n[2][0]);
}

Outputs largest(const Node& n) {
  const auto [values, indices] = topk(n[0], n.whole(1), static_cast<int>(n.integer("axis", -1)),
                                      n.integer("largest", 1) != 0);
  return {values, indices};
}

Outputs different(const Node& n) {
  unsupported_if(n.given("axis"), "unique() has no axis");
  unsupported_if(n.integer("sorted", 1) == 0, "unique() sorts");
  const auto [values, inverse, counts] = unique(n[0]);
  const std::int64_t count = n[0].shape().numel();
  const Variable first = scatter_reduce(Tensor::full(values.shape(), static_cast<double>(count), DType::i64), 0,
                                        reshape(inverse, {-1}), arange(count), ScatterReduce::kAmin);
  return {values, first, reshape(inverse, {-1}), counts};
}

}  // namespace

Table index_nodes() {
  return {
      {"Compress", one(taken)},
      {"Gather", one(gathered)},
      {"GatherElements", one([](const Node& n) {
         const int axis = from_start(n.integer("axis", 0), rank_of(n[0]));
         return gather(n[0], axis, positions(n[1], n[0].dim(axis)));
       })},
      {"GatherND", one(gathered_nd)},
      {"NonZero", one([](const Node& n) { return transpose(nonzero(n[0]), 0, 1); })},
      {"OneHot", one(hot)},
      {"Scatter", one(scattered)},
      {"ScatterElements", one(scattered)},
      {"ScatterND", one(scattered_nd)},
      {"TensorScatter", one(cache_written)},
      {"TopK", largest},
      {"Unique", different},
  };
}

}  // namespace binade::onnx
