#include <algorithm>
#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/losses.h"
#include "binade/core/ops/ctc.h"
#include "binade/core/ops/dice.h"
#include "tests/conformance/reference.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

/// The expected value of a loss that reduces n terms. Error bound: n additions in f32, and a few ulps per term.
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
  auto sets = Sampling<Op>::params();
  sets.push_back(sets.back());
  sets.back().reduction = ops::Reduction::kNone;
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
                             Expected each;
                             for (std::size_t i = 0; i < in[0].values.size(); ++i) {
                               const Real term = Reference<Op>::value(params, static_cast<Real>(in[0].values[i]),
                                                                      static_cast<Real>(in[1].values[i]));
                               total += term;
                               // 4, because terms are differences of numbers of this size
                               magnitude += std::abs(term) + 4;
                               each.values.push_back(static_cast<double>(term));
                               each.terms.push_back(32);
                               each.magnitude.push_back(static_cast<double>(std::abs(term) + 4));
                             }
                             if (params.reduction == ops::Reduction::kNone) return each;
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
  const auto terms = static_cast<double>(classes + 32);
  Expected each;
  for (std::int64_t row = 0; row < targets.shape.numel(); ++row) {
    const std::int64_t label = static_cast<std::int64_t>(targets[row]);
    each.values.push_back(0);
    each.terms.push_back(terms);
    each.magnitude.push_back(0);
    if (label == p.ignore_index) continue;
    Real max = -INFINITY, sum = 0, mean = 0;
    for (std::int64_t j = 0; j < classes; ++j) max = std::max(max, static_cast<Real>(logits[row * classes + j]));
    for (std::int64_t j = 0; j < classes; ++j) {
      sum += std::exp(static_cast<Real>(logits[row * classes + j]) - max);
      mean += static_cast<Real>(logits[row * classes + j]) / classes;
    }
    const Real log_sum = std::log(sum) + max;
    const Real hard = log_sum - logits[row * classes + label];
    const Real loss = p.label_smoothing > 0 ? (1 - p.label_smoothing) * hard + p.label_smoothing * (log_sum - mean)
                                            : hard;
    each.values.back() = static_cast<double>(loss);
    each.magnitude.back() = static_cast<double>(std::abs(log_sum) + 8);
    total += loss;
    magnitude += std::abs(log_sum) + 8;
    ++count;
  }
  if (p.reduction == ops::Reduction::kNone) return each;
  if (p.reduction == ops::Reduction::kSum)
    return one_number(total, magnitude, count + static_cast<std::size_t>(classes));
  return one_number(total / count, magnitude / count, count + static_cast<std::size_t>(classes));
}

/// The CTC loss of sample n: minus the log of the total probability of all paths that collapse to its targets.
Real ctc_by_paths(const std::vector<Array>& in, std::int64_t n, std::int64_t blank) {
  const std::int64_t samples = in[0].shape[1], classes = in[0].shape[2], width = in[1].shape[1];
  const auto steps = static_cast<std::size_t>(in[2][n]);
  std::vector<std::int64_t> want, path(steps, 0);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(in[3][n]); ++i)
    want.push_back(static_cast<std::int64_t>(in[1][n * width + i]));
  Real total = 0;
  for (;;) {
    std::vector<std::int64_t> text;
    Real log_probability = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      log_probability += in[0][(static_cast<std::int64_t>(t) * samples + n) * classes + path[t]];
      if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) text.push_back(path[t]);
    }
    if (text == want) total += std::exp(log_probability);
    std::size_t t = 0;
    while (t < steps && ++path[t] == classes) path[t++] = 0;  // count up to the next path
    if (t == steps) return -std::log(total);
  }
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
  struct Options {
    const char* name;
    double smoothing;
    ops::Reduction reduction;
  };
  constexpr Options kOptions[] = {{"", 0, ops::Reduction::kMean},
                                  {"_smoothed", 0.1, ops::Reduction::kMean},
                                  {"_sum", 0, ops::Reduction::kSum},
                                  {"_each", 0, ops::Reduction::kNone},
                                  {"_each_smoothed", 0.1, ops::Reduction::kNone}};
  for (const Sizes& s : sizes)
    for (const Options& o : kOptions) {
      const ops::CrossEntropy::Params params{
          .ignore_index = 1, .label_smoothing = o.smoothing, .reduction = o.reduction};
      const auto dims = s.logits.dims();
      const Shape rows(dims.first(dims.size() - 1));
      Tensor labels = random_labels(rows, 7, s.logits.cols());
      labels.mutable_data<std::int64_t>()[0] = 0;  // so that at least one label is not ignored
      cases.push_back(
          {.info = &ops::CrossEntropy::info,
           .name = std::string(s.name) + o.name,
           .inputs = {s.slice ? random_slice(s.logits, 1, -5, 5) : random(s.logits, 1, -5, 5), labels},
           .run = [params](const std::vector<Variable>& x) { return cross_entropy(x[0], x[1], params); },
           .reference =
               [params](const std::vector<Array>& in) { return cross_entropy_reference(in[0], in[1], params); },
           .nan_must_show = false});  // an ignored row may contain NaN
    }
  return cases;
}

std::vector<Case> ctc_cases() {
  struct Sizes {
    const char* name;
    std::int64_t steps, classes, blank;
    std::vector<std::vector<std::int64_t>> targets;
    std::vector<std::int64_t> lengths;  // of the inputs
  };
  // The reference visits all paths: classes^steps of them.
  const std::vector<Sizes> sizes = {
      {"one_step", 1, 3, 0, {{1}}, {1}},
      {"no_labels", 3, 3, 0, {{}}, {3}},
      {"repeated", 5, 3, 0, {{1, 1}}, {5}},
      {"last_blank", 5, 3, 2, {{0, 1, 0}}, {5}},
      {"batch", 6, 4, 0, {{1, 2, 3}, {3, 3, 0}, {2, 0, 0}, {1, 2, 1}}, {6, 5, 2, 3}},
      {"two_classes", 8, 2, 0, {{1, 1, 1}}, {8}},
      {"only_blanks", 4, 1, 0, {{}}, {4}},
      {"as_long_as_its_labels", 4, 4, 0, {{1, 2, 3, 1}}, {4}},
      {"barely_room_for_repetitions", 5, 3, 0, {{2, 2, 2}}, {5}},
      {"blank_between_the_classes", 5, 4, 1, {{0, 3, 2}}, {5}},
      {"short_inputs", 7, 3, 0, {{1}, {2}, {1}}, {1, 2, 7}},
      {"many_samples", 3, 3, 0, std::vector<std::vector<std::int64_t>>(70, {2, 1}), std::vector<std::int64_t>(70, 3)},
  };
  std::vector<Case> cases;
  for (const Sizes& s : sizes) {
    const auto samples = static_cast<std::int64_t>(s.targets.size());
    const auto width = static_cast<std::int64_t>(s.targets.front().size());
    std::vector<std::int64_t> all, counts;
    for (const auto& row : s.targets) {
      all.insert(all.end(), row.begin(), row.end());
      counts.push_back(width - std::count(row.begin(), row.end(), s.blank));
    }
    cases.push_back(
        {.info = &ops::Ctc::info,
         .name = s.name,
         .inputs = {random(Shape{s.steps, samples, s.classes}, 1, -3, -0.1), Tensor::from(all, {samples, width}),
                    Tensor::from(s.lengths, {samples}), Tensor::from(counts, {samples})},
         .run =
             [blank = s.blank](const std::vector<Variable>& x) {
               return ctc(x[0], x[1], x[2], x[3], {.blank = blank, .reduction = Reduction::kNone});
             },
         .reference =
             [blank = s.blank](const std::vector<Array>& in) {
               Expected e;
               for (std::int64_t n = 0; n < in[2].shape.numel(); ++n)
                 e.values.push_back(static_cast<double>(ctc_by_paths(in, n, blank)));
               return e;
             },
         .poison = false,  // +inf is not a log-probability
         .nan_must_show = false});
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
