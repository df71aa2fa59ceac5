#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/permute.h"
#include "binade/core/ops/reshape.h"
#include "binade/core/ops/slice.h"
#include "tests/conformance/positions.h"
#include "tests/conformance/registry.h"

// Ops that only move values: the reference maps each output element to its input element.
namespace binade::conformance {
namespace {

void add_reshape(std::vector<Case>& cases, const ShapeClass& s) {
  const std::vector<std::int64_t> dims = s.shape.numel() == 0
                                             ? std::vector<std::int64_t>{0, 2}
                                             : std::vector<std::int64_t>{-1, s.shape.rank() == 0 ? 1 : s.shape.dim(0)};
  cases.push_back({.info = &ops::Reshape::info,
                   .name = s.name,
                   .inputs = {random(s, 1)},
                   .run = [dims](const std::vector<Variable>& x) { return reshape(x[0], dims); },
                   .reference =
                       [](const std::vector<Array>& in) {
                         return Expected{in[0].values, {}, {}};
                       }});
}

void add_permute(std::vector<Case>& cases, const ShapeClass& s) {
  if (s.shape.rank() == 0) return;
  std::vector<int> order;
  for (int d = 0; d < s.shape.rank(); ++d) order.push_back((d + 1) % s.shape.rank());
  std::vector<std::int64_t> dims;
  for (const int d : order) dims.push_back(s.shape.dim(d));
  const Shape y_shape{std::span<const std::int64_t>(dims)};
  cases.push_back({.info = &ops::Permute::info,
                   .name = s.name,
                   .inputs = {random(s, 1)},
                   .run = [order](const std::vector<Variable>& x) { return permute(x[0], order); },
                   .reference =
                       [order, y_shape](const std::vector<Array>& in) {
                         Expected y;
                         for (std::int64_t i = 0; i < y_shape.numel(); ++i) {
                           const auto to = position_of(y_shape, i);
                           auto from = to;
                           for (std::size_t d = 0; d < order.size(); ++d)
                             from[static_cast<std::size_t>(order[d])] = to[d];
                           y.values.push_back(in[0][index_of(in[0].shape, from)]);
                         }
                         return y;
                       }});
}

void add_slices(std::vector<Case>& cases, const ShapeClass& s) {
  for (int axis = 0; axis < s.shape.rank(); ++axis) {
    const std::int64_t extent = s.shape.dim(axis), begin = extent / 3, end = extent - extent / 4;
    const Shape y_shape = s.shape.with_dim(axis, end - begin);
    cases.push_back({.info = &ops::Slice::info,
                     .name = std::string(s.name) + "_axis" + std::to_string(axis),
                     .inputs = {random(s, 1)},
                     .run = [=](const std::vector<Variable>& x) { return slice(x[0], axis, begin, end); },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           Expected y;
                           for (std::int64_t i = 0; i < y_shape.numel(); ++i) {
                             auto from = position_of(y_shape, i);
                             from[static_cast<std::size_t>(axis)] += begin;
                             y.values.push_back(in[0][index_of(in[0].shape, from)]);
                           }
                           return y;
                         },
                     .nan_must_show = false});
  }
}

void add_concat(std::vector<Case>& cases, const ShapeClass& s) {
  for (const int axis : {0, s.shape.rank() - 1}) {
    if (s.shape.rank() == 0) return;
    const Shape other = s.shape.with_dim(axis, s.shape.dim(axis) + 2);
    const Shape y_shape = s.shape.with_dim(axis, 2 * s.shape.dim(axis) + 2);
    const std::int64_t first = s.shape.dim(axis);
    cases.push_back({.info = &ops::Concat::info,
                     .name = std::string(s.name) + (axis == 0 ? "_first" : "_last"),
                     .inputs = {random(s, 1), random(other, 2)},
                     .run =
                         [axis](const std::vector<Variable>& x) {
                           return concat({x[0], x[1]}, axis);
                         },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           Expected y;
                           for (std::int64_t i = 0; i < y_shape.numel(); ++i) {
                             auto from = position_of(y_shape, i);
                             std::int64_t& along = from[static_cast<std::size_t>(axis)];
                             const Array& part = in[along < first ? 0 : 1];
                             if (along >= first) along -= first;
                             y.values.push_back(part[index_of(part.shape, from)]);
                           }
                           return y;
                         }});
    if (s.shape.rank() == 1) return;
  }
}

}  // namespace

std::vector<Case> movement_cases() {
  std::vector<Case> cases;
  for (const ShapeClass& s : shape_classes()) {
    add_reshape(cases, s);
    add_permute(cases, s);
    add_slices(cases, s);
    add_concat(cases, s);
  }
  return cases;
}

std::vector<Case> embedding_cases() {
  struct Sizes {
    const char* name;
    std::int64_t rows, width;
    Shape indices;
  };
  std::vector<Case> cases;
  for (const Sizes& s :
       {Sizes{"one_element", 1, 1, {1}}, Sizes{"scalar_index", 4, 3, Shape{}}, Sizes{"no_index", 4, 3, {0}},
        Sizes{"one_row_again_and_again", 1, 5, {17}}, Sizes{"vector", 7, 3, {5}}, Sizes{"batch", 11, 8, {2, 6}},
        Sizes{"rank_3", 6, 4, {2, 3, 4}}, Sizes{"odd_width", 9, 33, {3, 5}}, Sizes{"wide", 5, 519, {4}},
        Sizes{"tall", 2003, 2, {50}}, Sizes{"many", 13, 4, {1500}}, Sizes{"large", 300, 64, {40, 20}}})
    cases.push_back({.info = &ops::Embedding::info,
                     .name = s.name,
                     .inputs = {random({s.rows, s.width}, 1), random_labels(s.indices, 2, s.rows)},
                     .run = [](const std::vector<Variable>& x) { return embedding(x[0], x[1]); },
                     .reference =
                         [s](const std::vector<Array>& in) {
                           Expected y;
                           for (const double index : in[1].values)
                             for (std::int64_t d = 0; d < s.width; ++d)
                               y.values.push_back(in[0][static_cast<std::int64_t>(index) * s.width + d]);
                           return y;
                         },
                     .nan_must_show = false});
  return cases;
}

}  // namespace binade::conformance
