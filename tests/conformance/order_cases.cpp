#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/autograd/functions/order.h"
#include "binade/core/ops/cumulate.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/order.h"
#include "tests/conformance/registry.h"

// Cumulative ops, and ops that sort. The references process one line at a time, in double.
namespace binade::conformance {
namespace {

using Line = std::vector<double>;
struct Lined {
  const char* name;
  Shape shape;
  int axis;
};
const Lined kLines[] = {{"one_element", {1}, 0},  {"scalar", Shape{}, 0},  {"empty", {3, 0}, 0},
                        {"vector", {53}, 0},      {"rows", {4, 9}, 1},     {"columns", {9, 4}, 0},
                        {"middle", {2, 7, 5}, 1}, {"wide", {3, 5, 70}, 1}, {"last", {2, 3, 6}, -1}};

/// Calls f(line, write) for every line of x along the axis. write(j, value, terms, magnitude) sets element j of the
/// result, which has `length` elements along the axis.
Expected by_lines(
    const Array& x, int axis, std::int64_t length,
    const std::function<void(const Line&, const std::function<void(std::int64_t, double, double, double)>&)>& f) {
  const int rank = x.shape.rank();
  if (axis < 0) axis += rank;
  std::int64_t outer = 1, n = 1, inner = 1;
  for (int d = 0; d < rank; ++d) (d < axis ? outer : d == axis ? n : inner) *= x.shape[d];
  const auto count = static_cast<std::size_t>(outer * length * inner);
  Expected e{std::vector<double>(count), std::vector<double>(count), std::vector<double>(count)};
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      Line line;
      for (std::int64_t j = 0; j < n; ++j) line.push_back(x[(o * n + j) * inner + i]);
      f(line, [&](std::int64_t j, double value, double terms, double magnitude) {
        const auto at = static_cast<std::size_t>((o * length + j) * inner + i);
        e.values[at] = value;
        e.terms[at] = terms;
        e.magnitude[at] = magnitude;
      });
    }
  return e;
}
std::int64_t extent_of(const Lined& l) { return l.shape.rank() == 0 ? 1 : l.shape[l.axis]; }

/// Whether a comes before b in ascending order; NaN comes last.
bool before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

void add_cumulative(std::vector<Case>& cases, const Lined& l) {
  const auto add = [&](const char* name, auto run, auto step, double start, const OpInfo* info) {
    cases.push_back({.info = info,
                     .name = std::string(name) + "_" + l.name,
                     .inputs = {random(l.shape, 1)},
                     .run = [=](const std::vector<Variable>& x) { return run(x[0], l.axis); },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           return by_lines(in[0], l.axis, extent_of(l), [&](const Line& line, const auto& write) {
                             double total = start, magnitude = 0;
                             for (std::size_t j = 0; j < line.size(); ++j) {
                               total = step(total, line[j]);
                               magnitude += std::abs(line[j]);
                               write(static_cast<std::int64_t>(j), total, 1,
                                     info == &ops::Gather::info ? 0 : magnitude);
                             }
                           });
                         }});
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  add(
      "sum", &cumsum, [](double a, double b) { return a + b; }, 0, &ops::Cumulate::info);
  add(
      "prod", &cumprod, [](double a, double b) { return a * b; }, 1, &ops::Cumulate::info);
  add(
      "logsumexp", &logcumsumexp,
      [](double a, double b) {
        const double high = std::max(a, b), low = std::min(a, b);
        if (std::isnan(a) || std::isnan(b)) return a + b;
        return std::isinf(high) || std::isinf(low) ? high : high + std::log1p(std::exp(low - high));
      },
      -kInfinity, &ops::Cumulate::info);
  add(
      "cummax", [](const Variable& x, int axis) { return cummax(x, axis).values; },
      [](double a, double b) { return std::isnan(a) || a > b ? a : b; }, -kInfinity, &ops::Gather::info);
  add(
      "cummin", [](const Variable& x, int axis) { return cummin(x, axis).values; },
      [](double a, double b) { return std::isnan(a) || a < b ? a : b; }, kInfinity, &ops::Gather::info);
}

void add_ordered(std::vector<Case>& cases, const Lined& l) {
  const std::int64_t n = extent_of(l), k = (n + 2) / 3;
  const auto add = [&](const char* name, std::int64_t length, auto run, auto pick) {
    cases.push_back(
        {.info = &ops::Gather::info,
         .name = std::string(name) + "_" + l.name,
         .inputs = {random(l.shape, 1)},
         .run = [=](const std::vector<Variable>& x) { return run(x[0]); },
         .reference =
             [=](const std::vector<Array>& in) {
               return by_lines(in[0], l.axis, length, [&](const Line& line, const auto& write) {
                 Line sorted = line;
                 std::stable_sort(sorted.begin(), sorted.end(), before);
                 for (std::int64_t j = 0; j < length; ++j) write(j, pick(sorted, j), 0, 0);
               });
             },
         .differentiable = n < 1000,  // with more, some elements are closer to each other than the step of gradcheck
         .nan_must_show = false});
  };
  const int axis = l.axis;
  const auto at = [](const Line& s, std::int64_t j) { return s[static_cast<std::size_t>(j)]; };
  const auto from_end = [](const Line& s, std::int64_t j) { return s[s.size() - 1 - static_cast<std::size_t>(j)]; };
  add(
      "sort", n, [=](const Variable& x) { return sort(x, axis).values; }, at);
  add(
      "sort_descending", n, [=](const Variable& x) { return sort(x, axis, true).values; }, from_end);
  add(
      "topk", k, [=](const Variable& x) { return topk(x, k, axis).values; }, from_end);
  add(
      "topk_smallest", k, [=](const Variable& x) { return topk(x, k, axis, false).values; }, at);
  if (n == 0 || l.shape.numel() == 0) return;
  add(
      "kthvalue", 1, [=](const Variable& x) { return kthvalue(x, k, axis, true).values; },
      [=](const Line& s, std::int64_t) { return s[static_cast<std::size_t>(k - 1)]; });
  add(
      "median", 1, [=](const Variable& x) { return median(x, axis).values; },
      [](const Line& s, std::int64_t) { return std::isnan(s.back()) ? s.back() : s[(s.size() - 1) / 2]; });
}

/// Adds cases for argsort, and for the indices of cummax and cummin.
void add_positions(std::vector<Case>& cases, const Lined& l) {
  const auto add = [&](const OpInfo& info, const char* name, auto run, auto positions) {
    cases.push_back({.info = &info,
                     .name = std::string(name) + "_" + l.name,
                     .inputs = {random(l.shape, 1)},
                     .run = [=](const std::vector<Variable>& x) { return run(x[0], l.axis); },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           return by_lines(in[0], l.axis, extent_of(l), [&](const Line& line, const auto& write) {
                             std::vector<std::size_t> order(line.size());
                             std::iota(order.begin(), order.end(), std::size_t{0});
                             positions(line, order);
                             for (std::size_t j = 0; j < order.size(); ++j)
                               write(static_cast<std::int64_t>(j), static_cast<double>(order[j]), 0, 0);
                           });
                         },
                     .differentiable = false,
                     .nan_must_show = false});
  };
  using Order = std::vector<std::size_t>;
  for (const bool descending : {false, true})
    add(
        ops::Sort::info, descending ? "descending" : "ascending",
        [=](const Variable& x, int axis) { return argsort(x, axis, descending); },
        [=](const Line& line, Order& order) {
          std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return descending ? before(line[b], line[a]) : before(line[a], line[b]);
          });
        });
  for (const bool largest : {false, true})
    add(
        ops::CumulativeExtreme::info, largest ? "largest" : "smallest",
        [=](const Variable& x, int axis) { return (largest ? cummax(x, axis) : cummin(x, axis)).indices; },
        [=](const Line& line, Order& order) {
          for (std::size_t j = 1; j < line.size(); ++j) {
            const double best = line[order[j - 1]], next = line[j];
            const bool taken = std::isnan(next) ||
                               (largest ? next >= best : next <= best);  // false if `best` is NaN and `next` is not
            order[j] = taken ? j : order[j - 1];
          }
        });
}

void add_searches(std::vector<Case>& cases, const char* name, const Shape& rows, const Shape& values) {
  Tensor sorted = random(rows, 1);
  const std::int64_t n = rows[-1];
  double* const first = sorted.mutable_data<double>();
  for (std::int64_t begin = 0; begin < rows.numel(); begin += n) std::sort(first + begin, first + begin + n);
  for (const bool right : {false, true})
    cases.push_back({.info = &ops::SearchSorted::info,
                     .name = std::string(name) + (right ? "_right" : "_left"),
                     .inputs = {sorted, random(values, 2, -2.5, 2.5)},
                     .run = [=](const std::vector<Variable>& x) { return searchsorted(x[0], x[1], right); },
                     .reference =
                         [=](const std::vector<Array>& in) {
                           const std::int64_t m = values.rank() == 0 ? 1 : values[-1];
                           Expected e;
                           for (std::int64_t p = 0; p < values.numel(); ++p) {
                             std::int64_t count = 0;
                             for (std::int64_t j = 0; j < n; ++j) {
                               const double a = in[0][(rows.rank() == 1 ? 0 : p / m * n) + j], b = in[1][p];
                               count += before(a, b) || (right && !before(b, a)) ? 1 : 0;
                             }
                             e.values.push_back(static_cast<double>(count));
                           }
                           return e;
                         },
                     .differentiable = false,
                     .poison = false,  // a NaN inside of a row would break its order
                     .nan_must_show = false});
}

}  // namespace

std::vector<Case> scan_cases() {
  std::vector<Case> cases;
  for (const Lined& l : kLines) add_cumulative(cases, l);
  const Lined long_line{"blocks", {40000}, 0};  // several blocks, and a sum of 40000 gradients is still finite in f16
  std::vector<Case> more;
  add_cumulative(more, long_line);
  for (Case& c : more) {
    // A logsumexp of 40000 elements has an error of 1e-13. Divided by gradcheck's step, this exceeds its tolerance on
    // some devices. The gradient is not computed in blocks, so that the short lines are enough to test it.
    if (c.name == "logsumexp_blocks") c.differentiable = false;
    if (c.name != "prod_blocks") cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<Case> order_cases() {
  std::vector<Case> cases;
  for (const Lined& l : kLines) add_ordered(cases, l);
  for (const Lined& l : kLines) add_positions(cases, l);
  add_ordered(cases, {"large", {3, 3000}, 1});
  add_positions(cases, {"large", {3, 3000}, 1});
  add_searches(cases, "one_element", {1}, {1});
  add_searches(cases, "scalar", {5}, Shape{});
  add_searches(cases, "no_values", {5}, {0});
  add_searches(cases, "one_row", {9}, {4, 7});
  add_searches(cases, "rows", {4, 9}, {4, 7});
  add_searches(cases, "rank_3", {2, 3, 33}, {2, 3, 5});
  add_searches(cases, "large", {3, 1000}, {3, 2000});
  cases.push_back({.info = &ops::Gather::info,
                   .name = "msort",
                   .inputs = {random({6, 2}, 1)},
                   .run = [](const std::vector<Variable>& x) { return msort(x[0]); },
                   .reference =
                       [](const std::vector<Array>& in) {
                         return by_lines(in[0], 0, 6, [](Line line, const auto& write) {
                           std::stable_sort(line.begin(), line.end(), before);
                           for (std::size_t j = 0; j < 6; ++j) write(static_cast<std::int64_t>(j), line[j], 0, 0);
                         });
                       },
                   .nan_must_show = false});
  return cases;
}

}  // namespace binade::conformance
