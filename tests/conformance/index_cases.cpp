#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/index.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/where.h"
#include "tests/conformance/positions.h"
#include "tests/conformance/registry.h"

// Ops that read or write at the positions in an index tensor. The references loop over the index, element by element.
namespace binade::conformance {
namespace {

using Position = std::vector<std::int64_t>;
struct Sized {
  const char* name;
  Shape x, index;
  int axis;
};
const Sized kGrids[] = {{"one_element", {1}, {1}, 0},         {"vector", {7}, {12}, 0},
                        {"scalar", Shape{}, Shape{}, 0},      {"no_index", {4, 3}, {0, 3}, 0},
                        {"rows", {5, 4}, {9, 4}, 0},          {"columns", {5, 4}, {5, 3}, 1},
                        {"middle", {3, 4, 5}, {3, 7, 5}, 1},  {"partial", {3, 4, 5}, {2, 6, 3}, 1},
                        {"partial_last", {4, 3}, {2, 8}, -1}, {"wide", {2, 6, 130}, {2, 4, 130}, 1},
                        {"few", {24, 3}, {5, 3}, 0},          {"large", {90, 80}, {90, 100}, 1}};

/// Returns the element of x that element i of the index refers to.
std::int64_t target_of(const Shape& x, const Array& index, int axis, std::int64_t i) {
  if (x.rank() == 0) return 0;
  Position p = position_of(index.shape, i);
  p[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)] = static_cast<std::int64_t>(index[i]);
  return index_of(x, p);
}
std::int64_t extent_of(const Sized& s) { return s.x.rank() == 0 ? 1 : s.x[s.axis]; }

/// Collects the values that a scatter combines at each element. result() reduces them and bounds the error.
class Combination {
 public:
  Combination(const Array& x, ScatterReduce reduce, bool include_self)
      : reduce_(reduce), self_(include_self), x_(x.values), terms_(x.values.size()) {}
  void add(std::int64_t to, double value) { terms_[static_cast<std::size_t>(to)].push_back(value); }
  Expected result() const {
    Expected e;
    for (std::size_t t = 0; t < x_.size(); ++t) {
      std::vector<double> all = terms_[t];
      if (self_ || all.empty()) all.insert(all.begin(), x_[t]);
      double y = all[0], magnitude = std::abs(all[0]);
      for (std::size_t i = 1; i < all.size(); ++i) {
        magnitude += std::abs(all[i]);
        y = combined(y, all[i]);
      }
      const bool sums = reduce_ == ScatterReduce::kSum || reduce_ == ScatterReduce::kMean;
      if (reduce_ == ScatterReduce::kMean && !terms_[t].empty()) y /= static_cast<double>(all.size());
      e.values.push_back(y);
      e.terms.push_back(static_cast<double>(all.size()));
      e.magnitude.push_back(sums ? magnitude : reduce_ == ScatterReduce::kProd ? std::abs(y) : 0);
    }
    return e;
  }

 private:
  double combined(double a, double b) const {
    switch (reduce_) {
      case ScatterReduce::kProd: return a * b;
      case ScatterReduce::kAmax: return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
      case ScatterReduce::kAmin: return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
      default: return a + b;
    }
  }
  ScatterReduce reduce_;
  bool self_;
  std::vector<double> x_;
  std::vector<std::vector<double>> terms_;
};

void add_gather(std::vector<Case>& cases, const Sized& s) {
  cases.push_back({.info = &ops::Gather::info,
                   .name = s.name,
                   .inputs = {random(s.x, 1), random_labels(s.index, 2, extent_of(s))},
                   .run = [s](const std::vector<Variable>& x) { return gather(x[0], s.axis, x[1]); },
                   .reference =
                       [s](const std::vector<Array>& in) {
                         Expected e;
                         for (std::int64_t i = 0; i < s.index.numel(); ++i)
                           e.values.push_back(in[0][target_of(s.x, in[1], s.axis, i)]);
                         return e;
                       },
                   .nan_must_show = false});
}

void add_scatters(std::vector<Case>& cases, const Sized& s) {
  const std::vector<Tensor> inputs{random(s.x, 1), random_labels(s.index, 2, extent_of(s)), random(s.index, 3)};
  cases.push_back({.info = &ops::Scatter::info,
                   .name = std::string("assign_") + s.name,
                   .inputs = inputs,
                   .run = [s](const std::vector<Variable>& x) { return scatter(x[0], s.axis, x[1], x[2]); },
                   .reference =
                       [s](const std::vector<Array>& in) {
                         Expected e{in[0].values, {}, {}};
                         for (std::int64_t i = 0; i < s.index.numel(); ++i)
                           e.values[static_cast<std::size_t>(target_of(s.x, in[1], s.axis, i))] = in[2][i];
                         return e;
                       },
                   .nan_must_show = false});
  constexpr const char* kNames[] = {"sum", "mean", "prod", "amax", "amin"};
  for (const ScatterReduce reduce :
       {ScatterReduce::kSum, ScatterReduce::kMean, ScatterReduce::kProd, ScatterReduce::kAmax, ScatterReduce::kAmin})
    for (const bool self : {true, false}) {
      if (s.index.numel() > 5000 && (reduce != ScatterReduce::kSum || !self)) continue;
      cases.push_back({.info = &ops::Scatter::info,
                       .name = std::string(kNames[static_cast<int>(reduce)]) + (self ? "_" : "_without_self_") + s.name,
                       .inputs = inputs,
                       .run =
                           [=](const std::vector<Variable>& x) {
                             return reduce == ScatterReduce::kSum && self
                                        ? scatter_add(x[0], s.axis, x[1], x[2])
                                        : scatter_reduce(x[0], s.axis, x[1], x[2], reduce, self);
                           },
                       .reference =
                           [=](const std::vector<Array>& in) {
                             Combination y(in[0], reduce, self);
                             for (std::int64_t i = 0; i < s.index.numel(); ++i)
                               y.add(target_of(s.x, in[1], s.axis, i), in[2][i]);
                             return y.result();
                           },
                       .nan_must_show = false});
    }
}

/// Adds cases for ops that read or write whole slices along `axis` of x, at `count` indices.
void add_rows(std::vector<Case>& cases, const char* name, const Shape& x, int axis, std::int64_t count) {
  const Shape source = x.with_dim(axis, count);
  const std::vector<Tensor> inputs{random(x, 1), random_labels({count}, 2, x[axis]), random(source, 3)};
  const auto target = [=](const std::vector<Array>& in, std::int64_t i) {
    Position p = position_of(source, i);
    std::int64_t& at = p[static_cast<std::size_t>(axis)];
    at = static_cast<std::int64_t>(in[1][at]);
    return static_cast<std::size_t>(index_of(x, p));
  };
  cases.push_back({.info = &ops::IndexSelect::info,
                   .name = name,
                   .inputs = {inputs[0], inputs[1]},
                   .run = [=](const std::vector<Variable>& in) { return index_select(in[0], axis, in[1]); },
                   .reference =
                       [=](const std::vector<Array>& in) {
                         Expected e;
                         for (std::int64_t i = 0; i < source.numel(); ++i)
                           e.values.push_back(in[0].values[target(in, i)]);
                         return e;
                       },
                   .nan_must_show = false});
  cases.push_back({.info = &ops::Scatter::info,
                   .name = std::string("index_copy_") + name,
                   .inputs = inputs,
                   .run = [=](const std::vector<Variable>& in) { return index_copy(in[0], axis, in[1], in[2]); },
                   .reference =
                       [=](const std::vector<Array>& in) {
                         Expected e{in[0].values, {}, {}};
                         for (std::int64_t i = 0; i < source.numel(); ++i) e.values[target(in, i)] = in[2][i];
                         return e;
                       },
                   .nan_must_show = false});
  cases.push_back({.info = &ops::Scatter::info,
                   .name = std::string("index_fill_") + name,
                   .inputs = {inputs[0], inputs[1]},
                   .run = [=](const std::vector<Variable>& in) { return index_fill(in[0], axis, in[1], -1.5); },
                   .reference =
                       [=](const std::vector<Array>& in) {
                         Expected e{in[0].values, {}, {}};
                         for (std::int64_t i = 0; i < source.numel(); ++i) e.values[target(in, i)] = -1.5;
                         return e;
                       },
                   .nan_must_show = false});
  for (const ScatterReduce reduce : {ScatterReduce::kSum, ScatterReduce::kAmax})
    cases.push_back({.info = &ops::Scatter::info,
                     .name = std::string(reduce == ScatterReduce::kSum ? "index_add_" : "index_amax_") + name,
                     .inputs = inputs,
                     .run =
                         [=](const std::vector<Variable>& in) {
                           return reduce == ScatterReduce::kSum
                                      ? index_add(in[0], axis, in[1], in[2])
                                      : index_reduce(in[0], axis, in[1], in[2], reduce, false);
                         },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           Combination y(in[0], reduce, reduce == ScatterReduce::kSum);
                           for (std::int64_t i = 0; i < source.numel(); ++i)
                             y.add(static_cast<std::int64_t>(target(in, i)), in[2][i]);
                           return y.result();
                         },
                     .nan_must_show = false});
}

Tensor whole(const std::vector<std::int64_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

void add_positions(std::vector<Case>& cases) {
  cases.push_back({.info = &ops::IndexSelect::info,
                   .name = "take",
                   .inputs = {random({3, 4}, 1), whole({0, -1, 5, 5, -12, 3}, {2, 3})},
                   .run = [](const std::vector<Variable>& x) { return take(x[0], x[1]); },
                   .reference =
                       [](const std::vector<Array>& in) {
                         Expected e;
                         for (const double i : in[1].values)
                           e.values.push_back(in[0][static_cast<std::int64_t>(i < 0 ? i + 12 : i)]);
                         return e;
                       },
                   .nan_must_show = false});
  cases.push_back({.info = &ops::Gather::info,
                   .name = "take_along_dim",
                   .inputs = {random({3, 1, 4}, 1), random_labels({1, 5, 2}, 2, 4)},
                   .run = [](const std::vector<Variable>& x) { return take_along_dim(x[0], x[1], 2); },
                   .reference =
                       [](const std::vector<Array>& in) {
                         Expected e;
                         for (std::int64_t i = 0; i < 3 * 5 * 2; ++i)
                           e.values.push_back(in[0][i / 10 * 4 + static_cast<std::int64_t>(in[1][i % 10])]);
                         return e;
                       },
                   .nan_must_show = false});
  const Tensor rows = whole({1, -1, 0}, {3, 1}), columns = whole({2, 0}, {2});
  const auto place = [](double row, double column) {
    return ((static_cast<std::int64_t>(row) + 3) % 3 * 4 + static_cast<std::int64_t>(column)) * 2;
  };
  cases.push_back({.info = &ops::IndexSelect::info,
                   .name = "index_pairs",
                   .inputs = {random({3, 4, 2}, 1), rows, columns},
                   .run =
                       [](const std::vector<Variable>& x) {
                         return index(x[0], {x[1], x[2]});
                       },
                   .reference =
                       [=](const std::vector<Array>& in) {
                         Expected e;
                         for (std::int64_t p = 0; p < 12; ++p)
                           e.values.push_back(in[0][place(in[1][p / 4], in[2][p / 2 % 2]) + p % 2]);
                         return e;
                       },
                   .nan_must_show = false});
  for (const bool accumulate : {false, true})
    cases.push_back({.info = &ops::Scatter::info,
                     .name = accumulate ? "index_put_accumulate" : "index_put",
                     .inputs = {random({3, 4, 2}, 1), rows, random({2, 2}, 3), columns},
                     .run =
                         [=](const std::vector<Variable>& x) {
                           return index_put(x[0], {x[1], x[3]}, x[2], accumulate);
                         },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           Combination y(in[0], ScatterReduce::kSum, accumulate);
                           for (std::int64_t p = 0; p < 12; ++p)
                             y.add(place(in[1][p / 4], in[3][p / 2 % 2]) + p % 2, in[2][p % 4]);
                           return y.result();
                         },
                     .nan_must_show = false});
}

void add_masks(std::vector<Case>& cases) {
  const Tensor mask = whole({1, 0, 1, 0, 0, 1}, {3, 2}).to(DType::boolean);
  cases.push_back({.info = &ops::IndexSelect::info,
                   .name = "masked_select",
                   .inputs = {random({4, 3, 2}, 1), mask},
                   .run = [](const std::vector<Variable>& x) { return masked_select(x[0], x[1]); },
                   .reference =
                       [](const std::vector<Array>& in) {
                         Expected e;
                         for (std::int64_t i = 0; i < 24; ++i)
                           if (in[1][i % 6] != 0) e.values.push_back(in[0][i]);
                         return e;
                       },
                   .nan_must_show = false});
  cases.push_back({.info = &ops::Where::info,
                   .name = "masked_fill",
                   .inputs = {mask, random({4, 3, 2}, 1)},
                   .run = [](const std::vector<Variable>& x) { return masked_fill(x[1], x[0], 0.5); },
                   .reference =
                       [](const std::vector<Array>& in) {
                         Expected e{in[1].values, {}, {}};
                         for (std::int64_t i = 0; i < 24; ++i)
                           if (in[0][i % 6] != 0) e.values[static_cast<std::size_t>(i)] = 0.5;
                         return e;
                       },
                   .nan_must_show = false});
}

void add_bags(std::vector<Case>& cases) {
  constexpr std::int64_t kOffsets[] = {0, 3, 3, 8, 9};
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
    cases.push_back({.info = &ops::Scatter::info,
                     .name = "embedding_bag" + std::to_string(static_cast<int>(mode)),
                     .inputs = {random({6, 5}, 1), random_labels({9}, 2, 6), whole({0, 3, 3, 8}, {4})},
                     .run = [=](const std::vector<Variable>& x) { return embedding_bag(x[0], x[1], x[2], mode); },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           Combination y({{4, 5}, std::vector<double>(20)},
                                         mode == BagMode::kSum    ? ScatterReduce::kSum
                                         : mode == BagMode::kMean ? ScatterReduce::kMean
                                                                  : ScatterReduce::kAmax,
                                         false);
                           for (std::int64_t b = 0; b < 4; ++b)
                             for (std::int64_t i = kOffsets[b]; i < kOffsets[b + 1]; ++i)
                               for (std::int64_t d = 0; d < 5; ++d)
                                 y.add(b * 5 + d, in[0][static_cast<std::int64_t>(in[1][i]) * 5 + d]);
                           return y.result();
                         },
                     .nan_must_show = false});
  cases.push_back(
      {.info = &ops::Scatter::info,
       .name = "segment_sum",
       .inputs = {random({9, 3}, 1), whole({3, 0, 5, 1}, {4})},
       .run = [](const std::vector<Variable>& x) { return segment_reduce(x[0], x[1], ScatterReduce::kSum); },
       .reference =
           [=](const std::vector<Array>& in) {
             Combination y({{4, 3}, std::vector<double>(12)}, ScatterReduce::kSum, false);
             for (std::int64_t b = 0; b < 4; ++b)
               for (std::int64_t i = kOffsets[b]; i < kOffsets[b + 1]; ++i)
                 for (std::int64_t d = 0; d < 3; ++d) y.add(b * 3 + d, in[0][i * 3 + d]);
             return y.result();
           }});
}

}  // namespace

std::vector<Case> index_cases() {
  std::vector<Case> cases;
  for (const Sized& s : kGrids) add_gather(cases, s);
  add_positions(cases);
  add_masks(cases);
  return cases;
}

std::vector<Case> scatter_cases() {
  std::vector<Case> cases;
  for (const Sized& s : kGrids) add_scatters(cases, s);
  add_rows(cases, "rows", {6, 5}, 0, 9);
  add_rows(cases, "middle", {2, 5, 4}, 1, 3);
  add_rows(cases, "vector", {7}, 0, 20);
  add_rows(cases, "last", {3, 4}, 1, 6);
  add_rows(cases, "none", {3, 4}, 0, 0);
  add_rows(cases, "few", {24, 3}, 0, 5);
  add_rows(cases, "wide", {9, 200}, 0, 30);
  add_rows(cases, "one_element", {1}, 0, 1);
  add_rows(cases, "rank_4", {2, 3, 5, 2}, 2, 8);
  add_rows(cases, "large", {90, 80}, 1, 100);
  add_bags(cases);
  return cases;
}

}  // namespace binade::conformance
