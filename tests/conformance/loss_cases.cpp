#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/losses.h"
#include "binade/core/ops/dice.h"
#include "tests/conformance/reference.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

/// The expected mean of n terms: f32 adds n times, and each term has an error of a few ulps.
Expected one_number(Real total, Real magnitude, std::size_t n) {
  return {{static_cast<double>(total)}, {static_cast<double>(n) + 32}, {static_cast<double>(magnitude)}};
}

template <class Op>
void add_loss(std::vector<Case>& cases) {
  // Inputs are probabilities or log-probabilities if the loss expects them, at least 0.05 from the ends of the range,
  // where the derivative is large.
  const bool probability = std::is_same_v<Op, ops::Bce>, log_probability = std::is_same_v<Op, ops::KlDiv>;
  const double low = probability       ? 0.05
                     : log_probability ? -3
                                       : -2,
               high = probability       ? 0.95
                      : log_probability ? -0.1
                                        : 2;
  const auto sets = Sampling<Op>::params();
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (const ShapeClass& shape : shape_classes()) {
      if (shape.shape.numel() == 0) continue;
      const auto params = sets[s];
      cases.push_back({.info = &Op::info,
                       .name = std::string(shape.name) + (s == 0 ? "" : "_options" + std::to_string(s)),
                       .inputs = {random(shape, 1, low, high), random(shape, 2, 0.05, 0.95)},
                       .run =
                           [params](const std::vector<Variable>& x) {
                             return apply_one<Op>(params, {x[0], x[1]});
                           },
                       .reference =
                           [params](const std::vector<Array>& in) {
                             Real total = 0, magnitude = 0;
                             for (std::size_t i = 0; i < in[0].values.size(); ++i) {
                               const Real term = Reference<Op>::value(params, static_cast<Real>(in[0].values[i]),
                                                                      static_cast<Real>(in[1].values[i]));
                               total += term;
                               magnitude += std::abs(term) +
                                            4;  // 4, because terms are differences of numbers of this size
                             }
                             const Shape& in_shape = in[0].shape;
                             Real divisor = 1;
                             if (params.reduction == ops::Reduction::kMean)
                               divisor = static_cast<Real>(in_shape.numel());
                             if (params.reduction == ops::Reduction::kBatchMean)
                               divisor = static_cast<Real>(in_shape.rank() == 0 ? 1 : in_shape.dim(0));
                             return one_number(total / divisor, magnitude / divisor, in[0].values.size());
                           }});
    }
}

Expected cross_entropy_reference(const Array& logits, const Array& targets, const ops::CrossEntropy::Params& p) {
  const std::int64_t classes = logits.shape.cols();
  Real total = 0, magnitude = 0;
  std::size_t count = 0;
  for (std::int64_t row = 0; row < targets.shape.numel(); ++row) {
    const std::int64_t label = static_cast<std::int64_t>(targets[row]);
    if (label == p.ignore_index) continue;
    Real max = -INFINITY, sum = 0, mean = 0;
    for (std::int64_t j = 0; j < classes; ++j) max = std::max(max, static_cast<Real>(logits[row * classes + j]));
    for (std::int64_t j = 0; j < classes; ++j) {
      sum += std::exp(static_cast<Real>(logits[row * classes + j]) - max);
      mean += static_cast<Real>(logits[row * classes + j]) / classes;
    }
    const Real log_sum = std::log(sum) + max;
    const Real hard = log_sum - logits[row * classes + label];
    total += p.label_smoothing > 0 ? (1 - p.label_smoothing) * hard + p.label_smoothing * (log_sum - mean) : hard;
    magnitude += std::abs(log_sum) + 8;
    ++count;
  }
  return one_number(total / count, magnitude / count, count + static_cast<std::size_t>(classes));
}

}  // namespace

std::vector<Case> element_loss_cases() {
  std::vector<Case> cases;
  ops::for_each_op(ops::ElementLosses{}, [&]<class Op>(ops::OpTag<Op>) { add_loss<Op>(cases); });
  return cases;
}

std::vector<Case> cross_entropy_cases() {
  struct Sizes {
    const char* name;
    Shape logits;
    bool slice = false;
  };
  const std::vector<Sizes> sizes = {
      {"one_row", {1, 3}},       {"one_class", {4, 1}},    {"vector", {5}},
      {"two_classes", {9, 2}},   {"matrix", {3, 5}},       {"sequence", {2, 7, 13}},
      {"image", {2, 3, 5, 4}},   {"odd", {33, 67}},        {"channel_slice", {4, 3, 6}, true},
      {"vocabulary", {3, 5003}}, {"chunk_edge", {2, 512}}, {"past_chunk", {2, 513}},
      {"many_rows", {2051, 3}}};
  std::vector<Case> cases;
  for (const Sizes& s : sizes)
    for (const double smoothing : {0.0, 0.1}) {
      const ops::CrossEntropy::Params params{.ignore_index = 1, .label_smoothing = smoothing};
      const auto dims = s.logits.dims();
      const Shape rows(dims.first(dims.size() - 1));
      Tensor labels = random_labels(rows, 7, s.logits.cols());
      labels.mutable_data<std::int64_t>()[0] = 0;  // so that at least one label is not ignored
      cases.push_back(
          {.info = &ops::CrossEntropy::info,
           .name = std::string(s.name) + (smoothing > 0 ? "_smoothed" : ""),
           .inputs = {s.slice ? random_slice(s.logits, 1, -5, 5) : random(s.logits, 1, -5, 5), labels},
           .run = [params](const std::vector<Variable>& x) { return cross_entropy(x[0], x[1], params); },
           .reference =
               [params](const std::vector<Array>& in) { return cross_entropy_reference(in[0], in[1], params); },
           .nan_must_show = false});  // an ignored row may contain NaN
    }
  return cases;
}

std::vector<Case> dice_cases() {
  std::vector<Case> cases;
  for (const ShapeClass& shape : shape_classes()) {
    if (shape.shape.numel() == 0) continue;
    for (const double smooth : {1.0, 0.0})
      cases.push_back({.info = &ops::Dice::info,
                       .name = std::string(shape.name) + (smooth == 0 ? "_plain" : ""),
                       .inputs = {random(shape, 1, 0, 1), random(shape, 2, 0, 1)},
                       .run = [smooth](const std::vector<Variable>& x) { return dice(x[0], x[1], smooth); },
                       .reference =
                           [smooth](const std::vector<Array>& in) {
                             Real product = 0, both = 0;
                             for (std::size_t i = 0; i < in[0].values.size(); ++i) {
                               product += static_cast<Real>(in[0].values[i]) * in[1].values[i];
                               both += static_cast<Real>(in[0].values[i]) + in[1].values[i];
                             }
                             return one_number(1 - (2 * product + smooth) / (both + smooth), 1,
                                               3 * in[0].values.size());
                           }});
  }
  return cases;
}

}  // namespace binade::conformance
