#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/ops/fold.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

struct Reduced {
  const char* name;
  ShapeClass x;
  std::vector<int> axes;
  bool keepdim = false;
};
const std::vector<Reduced>& reductions() {
  static const std::vector<Reduced> all = {
      {"scalar", {"", Shape{}}, {}},
      {"one_element", {"", {1}}, {0}},
      {"ones", {"", {1, 1, 1}}, {1}},
      {"all_of_a_matrix", {"", {3, 5}}, {}},
      {"last", {"", {33, 67}}, {-1}},
      {"last_keepdim", {"", {33, 67}}, {1}, true},
      {"first", {"", {33, 67}}, {0}},
      {"middle", {"", {4, 9, 5}}, {1}},
      {"outer_and_last", {"", {4, 9, 5}}, {0, 2}},
      {"image_to_channels", {"", {2, 5, 7, 3}}, {0, 1, 2}},
      {"image_to_batch", {"", {2, 5, 7, 3}}, {1, 2, 3}},
      {"rank_8", {"", {1, 2, 1, 3, 2, 1, 2, 3}}, {1, 4, 6}},
      {"channel_slice", {"", {4, 3, 6}, true}, {0, 1}},
      {"channel_slice_last", {"", {4, 3, 6}, true}, {-1}},
      {"large", {"", {37, 1031}}, {}},
      {"large_columns", {"", {2500, 40}}, {0}},
      {"narrow_columns", {"", {7001, 3}}, {0}},
      {"long_row", {"", {2, 20011}}, {1}},
      {"vector", {"", {257}}, {0}},
      {"third_of_five_keepdim", {"", {2, 3, 4, 2, 3}}, {2}, true},
  };
  return all;
}

/// Returns the index in the reduced result for each element of x.
std::vector<std::int64_t> targets_of(const Shape& x, const std::vector<int>& axes) {
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), axes.empty());
  for (const int a : axes) reduced[static_cast<std::size_t>(a < 0 ? a + x.rank() : a)] = true;
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, index = 0, stride = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      if (!reduced[static_cast<std::size_t>(d)]) {
        index += rest % x.dim(d) * stride;
        stride *= x.dim(d);
      }
      rest /= x.dim(d);
    }
    targets.push_back(index);
  }
  return targets;
}

std::size_t results_of(const std::vector<std::int64_t>& targets) {
  std::int64_t last = -1;
  for (const std::int64_t t : targets) last = std::max(last, t);
  return static_cast<std::size_t>(last + 1);
}

Expected sums(const Array& x, const std::vector<int>& axes, bool mean) {
  const std::vector<std::int64_t> targets = targets_of(x.shape, axes);
  const std::size_t n = results_of(targets);
  Expected y{std::vector<double>(n, 0.0), std::vector<double>(n, 0.0), std::vector<double>(n, 0.0)};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::size_t t = static_cast<std::size_t>(targets[i]);
    y.values[t] += x.values[i];
    y.terms[t] += 1;
    y.magnitude[t] += std::abs(x.values[i]);
  }
  if (mean)
    for (std::size_t t = 0; t < n; ++t) {
      y.values[t] /= y.terms[t];
      y.magnitude[t] /= y.terms[t];
    }
  return y;
}

Expected largest(const Array& x, const std::vector<int>& axes) {
  const std::vector<std::int64_t> targets = targets_of(x.shape, axes);
  Expected y{std::vector<double>(results_of(targets), -std::numeric_limits<double>::infinity()), {}, {}};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    double& best = y.values[static_cast<std::size_t>(targets[i])];
    if (std::isnan(x.values[i]) || x.values[i] > best) best = std::isnan(best) ? best : x.values[i];
  }
  return y;
}

Expected smallest(Array x, const std::vector<int>& axes) {
  for (double& value : x.values) value = -value;
  Expected y = largest(x, axes);
  for (double& value : y.values) value = -value;
  return y;
}

Expected products(const Array& x, const std::vector<int>& axes) {
  const std::vector<std::int64_t> targets = targets_of(x.shape, axes);
  Expected y{std::vector<double>(results_of(targets), 1.0), {}, {}};
  for (std::size_t i = 0; i < targets.size(); ++i) y.values[static_cast<std::size_t>(targets[i])] *= x.values[i];
  return y;
}

Expected norms(const Array& x, double p, const std::vector<int>& axes) {
  const std::vector<std::int64_t> targets = targets_of(x.shape, axes);
  const std::size_t n = results_of(targets);
  Expected y{std::vector<double>(n, 0.0), std::vector<double>(n, 0.0), {}};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    y.values[static_cast<std::size_t>(targets[i])] += std::pow(std::abs(x.values[i]), p);
    y.terms[static_cast<std::size_t>(targets[i])] += 1;
  }
  for (double& value : y.values) value = std::pow(value, 1 / p);
  y.magnitude = y.values;  // the relative error of a root is at most that of its argument
  return y;
}

/// argmax along `axis`: the position of the first NaN; without a NaN, of the first largest element.
Expected positions(const Array& x, int axis) {
  const int d = axis < 0 ? axis + x.shape.rank() : axis;
  std::int64_t inner = 1;
  for (int i = d + 1; i < x.shape.rank(); ++i) inner *= x.shape.dim(i);
  const std::int64_t n = x.shape.dim(d);
  Expected y;
  for (std::int64_t line = 0; line < x.shape.numel() / n; ++line) {
    const std::int64_t first = line / inner * n * inner + line % inner;
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < n; ++j) {
      const double value = x[first + j * inner], most = x[first + best * inner];
      if (!std::isnan(most) && (value > most || std::isnan(value))) best = j;
    }
    y.values.push_back(static_cast<double>(best));
  }
  return y;
}

/// Adds a case for `any` or `all`. About one element in twelve, at random places, decides the result: it is nonzero for
/// `any`, 0 for `all`.
template <class Op>
void add_truths(std::vector<Case>& cases, const Reduced& r) {
  constexpr bool kAny = std::is_same_v<Op, ops::Any>;
  Tensor x = random_labels(r.x.shape, 10, 12).to(DType::f64);
  double* values = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) values[i] = (values[i] == 0) == kAny ? 0.5 : 0;
  cases.push_back({.info = &Op::info,
                   .name = r.name,
                   .inputs = {x},
                   .run =
                       [r](const std::vector<Variable>& in) {
                         return apply_one<Op>({.axes = r.axes, .keepdim = r.keepdim}, {in[0]});
                       },
                   .reference =
                       [r](const std::vector<Array>& in) {
                         const std::vector<std::int64_t> targets = targets_of(in[0].shape, r.axes);
                         Expected y{std::vector<double>(results_of(targets), kAny ? 0 : 1), {}, {}};
                         for (std::size_t i = 0; i < targets.size(); ++i)
                           if ((in[0].values[i] != 0) == kAny)
                             y.values[static_cast<std::size_t>(targets[i])] = kAny ? 1 : 0;
                         return y;
                       },
                   .differentiable = false,
                   .nan_must_show = false});
}

void add_folds(std::vector<Case>& cases, const Reduced& r) {
  cases.push_back({.info = &ops::Min::info,
                   .name = r.name,
                   .inputs = {random(r.x, 4)},
                   .run = [r](const std::vector<Variable>& x) { return min(x[0], r.axes, r.keepdim); },
                   .reference = [r](const std::vector<Array>& in) { return smallest(in[0], r.axes); }});
  for (const double p : {1.0, 2.0, 3.5})
    cases.push_back({.info = &ops::Norm::info,
                     .name = fmt::format("{}_of_{}_tenths", r.name, std::lround(10 * p)),
                     .inputs = {random(r.x, 5)},
                     .run = [r, p](const std::vector<Variable>& x) { return norm(x[0], p, r.axes, r.keepdim); },
                     .reference = [r, p](const std::vector<Array>& in) { return norms(in[0], p, r.axes); }});
  if (r.x.shape.numel() < 5000)  // a longer product leaves the range of f16
    cases.push_back({.info = &ops::Prod::info,
                     .name = r.name,
                     .inputs = {random(r.x, 6, 0.5, 1.5)},
                     .run = [r](const std::vector<Variable>& x) { return prod(x[0], r.axes, r.keepdim); },
                     .reference = [r](const std::vector<Array>& in) { return products(in[0], r.axes); }});
  add_truths<ops::Any>(cases, r);
  add_truths<ops::All>(cases, r);
  if (r.axes.size() != 1) return;
  cases.push_back({.info = &ops::MaxAlong::info,
                   .name = r.name,
                   .inputs = {random(r.x, 7)},
                   .run = [r](const std::vector<Variable>& x) { return max(x[0], r.axes[0], r.keepdim).values; },
                   .reference = [r](const std::vector<Array>& in) { return largest(in[0], r.axes); }});
  cases.push_back({.info = &ops::MinAlong::info,
                   .name = r.name,
                   .inputs = {random(r.x, 8)},
                   .run = [r](const std::vector<Variable>& x) { return min(x[0], r.axes[0], r.keepdim).values; },
                   .reference = [r](const std::vector<Array>& in) { return smallest(in[0], r.axes); }});
  cases.push_back({.info = &ops::ArgMax::info,
                   .name = r.name,
                   .inputs = {random(r.x, 9)},
                   .run = [r](const std::vector<Variable>& x) { return argmax(x[0], r.axes[0], r.keepdim); },
                   .reference = [r](const std::vector<Array>& in) { return positions(in[0], r.axes[0]); },
                   .differentiable = false,
                   .nan_must_show = false});
  cases.push_back({.info = &ops::ArgMin::info,
                   .name = r.name,
                   .inputs = {random(r.x, 10)},
                   .run = [r](const std::vector<Variable>& x) { return argmin(x[0], r.axes[0], r.keepdim); },
                   .reference =
                       [r](const std::vector<Array>& in) {
                         Array negated = in[0];
                         for (double& value : negated.values) value = -value;
                         return positions(negated, r.axes[0]);
                       },
                   .differentiable = false,
                   .nan_must_show = false});
}

Expected softmax_reference(const Array& x, int axis, bool log) {
  Expected y{std::vector<double>(x.values.size()), {}, {}};
  const int d = x.shape.rank() == 0 ? 0 : (axis < 0 ? axis + x.shape.rank() : axis);
  std::int64_t n = 1, inner = 1;
  if (x.shape.rank() > 0) n = x.shape.dim(d);
  for (int i = d + 1; i < x.shape.rank(); ++i) inner *= x.shape.dim(i);
  for (std::int64_t start = 0; start < x.shape.numel(); ++start) {
    if (start / inner % n != 0) continue;
    double max = -std::numeric_limits<double>::infinity();
    bool nan = false;
    for (std::int64_t j = 0; j < n; ++j) {
      max = std::max(max, x[start + j * inner]);
      nan = nan || std::isnan(x[start + j * inner]);
    }
    long double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += std::exp(static_cast<long double>(x[start + j * inner]) - max);
    for (std::int64_t j = 0; j < n; ++j) {
      const long double distance = static_cast<long double>(x[start + j * inner]) - max;
      y.values[static_cast<std::size_t>(start + j * inner)] = nan ? std::numeric_limits<double>::quiet_NaN()
                                                                  : static_cast<double>(log ? distance - std::log(sum)
                                                                                            : std::exp(distance) / sum);
    }
  }
  // log-softmax is the difference of two numbers of this size, each rounded to f32.
  if (log)
    for (const double value : y.values) {
      y.terms.push_back(4);
      y.magnitude.push_back(std::abs(value) + std::log(static_cast<double>(n)));
    }
  else
    for (const double value : y.values) {
      y.terms.push_back(static_cast<double>(n) + 64);  // 64 for the errors of exp and of the subtraction
      y.magnitude.push_back(value);
    }
  return y;
}

}  // namespace

std::vector<Case> reduce_cases() {
  std::vector<Case> cases;
  for (const Reduced& r : reductions()) {
    cases.push_back({.info = &ops::Sum::info,
                     .name = r.name,
                     .inputs = {random(r.x, 1)},
                     .run = [r](const std::vector<Variable>& x) { return sum(x[0], r.axes, r.keepdim); },
                     .reference = [r](const std::vector<Array>& in) { return sums(in[0], r.axes, false); }});
    cases.push_back({.info = &ops::Mean::info,
                     .name = r.name,
                     .inputs = {random(r.x, 2)},
                     .run = [r](const std::vector<Variable>& x) { return mean(x[0], r.axes, r.keepdim); },
                     .reference = [r](const std::vector<Array>& in) { return sums(in[0], r.axes, true); }});
    cases.push_back({.info = &ops::Max::info,
                     .name = r.name,
                     .inputs = {random(r.x, 3)},
                     .run = [r](const std::vector<Variable>& x) { return max(x[0], r.axes, r.keepdim); },
                     .reference = [r](const std::vector<Array>& in) { return largest(in[0], r.axes); }});
  }
  for (const Reduced& r : reductions()) add_folds(cases, r);
  // An empty sum is 0, and an empty mean 0 / 0.
  cases.push_back({.info = &ops::Sum::info,
                   .name = "empty",
                   .inputs = {random(Shape{3, 0}, 1)},
                   .run = [](const std::vector<Variable>& x) { return sum(x[0], {1}); },
                   .reference =
                       [](const std::vector<Array>&) {
                         return Expected{{0, 0, 0}, {}, {}};
                       }});
  cases.push_back({.info = &ops::Mean::info,
                   .name = "empty",
                   .inputs = {random(Shape{3, 0}, 1)},
                   .run = [](const std::vector<Variable>& x) { return mean(x[0], {1}); },
                   .reference =
                       [](const std::vector<Array>&) {
                         return Expected{std::vector<double>(3, std::nan("")), {}, {}};
                       }});
  return cases;
}

std::vector<Case> softmax_cases() {
  std::vector<Case> cases;
  std::vector<std::pair<ShapeClass, int>> shapes;
  for (const ShapeClass& c : shape_classes()) shapes.emplace_back(c, -1);
  shapes.push_back({{"first_axis", {7, 5}}, 0});
  shapes.push_back({{"middle_axis", {2, 9, 4}}, 1});
  shapes.push_back({{"axis_before_ones", {2, 5, 1}}, 1});
  shapes.push_back({{"slice_first_axis", {4, 3, 6}, true}, 0});
  for (const auto& [shape, axis] : shapes)
    for (const bool log : {false, true})
      cases.push_back(
          {.info = log ? &ops::LogSoftmax::info : &ops::Softmax::info,
           .name = shape.name,
           .inputs = {random(shape, 1, -6, 6)},
           .run = [axis = axis,
                   log](const std::vector<Variable>& x) { return log ? log_softmax(x[0], axis) : softmax(x[0], axis); },
           .reference = [axis = axis,
                         log](const std::vector<Array>& in) { return softmax_reference(in[0], axis, log); }});
  return cases;
}

}  // namespace binade::conformance
