#include <optional>

#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/rearrange.h"
#include "tests/conformance/positions.h"
#include "tests/conformance/registry.h"

// Ops that copy elements. A reference states from which position each output element comes.
namespace binade::conformance {
namespace {

using Position = std::vector<std::int64_t>;
using Run = std::function<Variable(const Variable&)>;

/// y[p] = x[from(p)], or `fill` if from(p) is no position.
void add(std::vector<Case>& cases, const std::string& name, const Shape& x, const Run& run, const Shape& y,
         const std::function<std::optional<Position>(Position)>& from, bool shows_nan = true, double fill = 0,
         const OpInfo* info = &ops::Rearrange::info) {
  cases.push_back({.info = info,
                   .name = name,
                   .inputs = {random(x, 1)},
                   .run = [run](const std::vector<Variable>& in) { return run(in[0]); },
                   .reference =
                       [=](const std::vector<Array>& in) {
                         Expected e;
                         for (std::int64_t i = 0; i < y.numel(); ++i) {
                           const auto p = from(position_of(y, i));
                           e.values.push_back(p ? in[0][index_of(x, *p)] : fill);
                         }
                         return e;
                       },
                   .nan_must_show = shows_nan});
}

struct Sized {
  const char* name;
  Shape shape;
};
const Sized kShapes[] = {{"one_element", {1}},  {"vector", {37}},     {"empty", {3, 0, 2}},     {"matrix", {5, 4}},
                         {"rank_3", {2, 3, 4}}, {"wide", {3, 2, 16}}, {"rank_4", {2, 3, 2, 5}}, {"large", {7, 900}}};

void add_axes(std::vector<Case>& cases) {
  for (const auto& [name, shape] : kShapes)
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      const std::int64_t n = shape[axis];
      const std::string of = std::string("_") + name + "_axis" + std::to_string(axis);
      add(
          cases, "flip" + of, shape, [=](const Variable& x) { return flip(x, {axis}); }, shape,
          [=](Position p) {
            p[a] = n - 1 - p[a];
            return p;
          });
      for (const std::int64_t shift : {1, -3})
        add(
            cases, (shift > 0 ? "roll" : "roll_back") + of, shape,
            [=](const Variable& x) { return roll(x, {shift}, {axis}); }, shape,
            [=](Position p) {
              p[a] = ((p[a] - shift) % n + n) % n;
              return p;
            });
      add(
          cases, "step" + of, shape, [=](const Variable& x) { return slice(x, axis, n / 3, n, 2); },
          shape.with_dim(axis, (n - n / 3 + 1) / 2),
          [=](Position p) {
            p[a] = n / 3 + 2 * p[a];
            return p;
          },
          false);
      add(
          cases, "interleave" + of, shape, [=](const Variable& x) { return repeat_interleave(x, 3, axis); },
          shape.with_dim(axis, 3 * n),
          [=](Position p) {
            p[a] /= 3;
            return p;
          },
          true, 0, &ops::Expand::info);
      std::vector<std::int64_t> times(static_cast<std::size_t>(shape.rank()), 1);
      times[a] = 2;
      add(
          cases, "repeat" + of, shape, [=](const Variable& x) { return repeat(x, times); }, shape.with_dim(axis, 2 * n),
          [=](Position p) {
            p[a] %= n;
            return p;
          },
          true, 0, &ops::Expand::info);
      if (n < 2) continue;
      std::vector<std::int64_t> amounts(static_cast<std::size_t>(2 * (shape.rank() - axis)), 0);
      amounts[amounts.size() - 2] = 1;
      amounts.back() = n - 1;
      for (const PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular})
        add(
            cases, "pad" + std::to_string(static_cast<int>(mode)) + of, shape,
            [=](const Variable& x) { return pad(x, amounts, mode, 1.5); }, shape.with_dim(axis, 2 * n),
            [=](Position p) -> std::optional<Position> {
              std::int64_t& at = p[a];
              at -= 1;
              if (at >= 0 && at < n) return p;
              if (mode == PadMode::kConstant) return std::nullopt;
              if (mode == PadMode::kReflect) at = at < 0 ? -at : n - 1 - (at - (n - 1));
              if (mode == PadMode::kReplicate) at = at < 0 ? 0 : n - 1;
              if (mode == PadMode::kCircular) at = at < 0 ? at + n : at - n;
              return p;
            },
            true, mode == PadMode::kConstant ? 1.5 : 0);
      std::vector<std::int64_t> windows(shape.dims().begin(), shape.dims().end());
      windows[a] = (n - 2) / 1 + 1;
      windows.push_back(2);
      add(
          cases, "unfold" + of, shape, [=](const Variable& x) { return unfold(x, axis, 2, 1); },
          Shape(std::span<const std::int64_t>(windows)),
          [=](Position p) {
            p[a] += p.back();
            p.pop_back();
            return p;
          });
    }
}

void add_windows(std::vector<Case>& cases) {
  const Shape image{2, 5, 6, 3};
  const UnfoldOptions o{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};
  const std::int64_t rows = 3, columns = 4;  // (5 + 2 - 3) / 2 + 1, (6 - 3) + 1
  const auto source = [=](const Position& p) -> std::optional<Position> {
    const std::int64_t y = p[1] / columns * 2 - 1 + p[2] / 6, x = p[1] % columns + p[2] / 3 % 2 * 2;
    if (y < 0 || y >= 5) return std::nullopt;
    return Position{p[0], y, x, p[2] % 3};
  };
  const Shape windows{2, rows * columns, 3 * 2 * 3};
  add(
      cases, "unfold2d", image, [=](const Variable& x) { return unfold2d(x, o); }, windows, source);
  cases.push_back({.info = &ops::Rearrange::info,
                   .name = "fold2d",
                   .inputs = {random(windows, 1)},
                   .run =
                       [=](const std::vector<Variable>& in) {
                         return fold2d(in[0], {5, 6}, o);
                       },
                   .reference =
                       [=](const std::vector<Array>& in) {
                         Expected e{std::vector<double>(180), std::vector<double>(180), std::vector<double>(180)};
                         for (std::int64_t i = 0; i < windows.numel(); ++i)
                           if (const auto p = source(position_of(windows, i))) {
                             const auto at = static_cast<std::size_t>(index_of(image, *p));
                             e.values[at] += in[0][i];
                             e.magnitude[at] += std::abs(in[0][i]);
                             e.terms[at] += 1;
                           }
                         return e;
                       },
                   .half_roundings = 4,  // the sums of one axis are rounded before those of the other
                   .nan_must_show = false});
}

void add_diagonals(std::vector<Case>& cases) {
  for (const std::int64_t offset : {0, 1, -2}) {
    const std::string name = "diagonal" + std::to_string(offset + 2);
    const std::int64_t count = offset == 0 ? 3 : offset == 1 ? 3 : 1;
    add(
        cases, name, {3, 2, 4}, [=](const Variable& x) { return diagonal(x, offset, 0, 2); }, {2, count},
        [=](Position p) {
          return Position{p[1] + (offset < 0 ? -offset : 0), p[0], p[1] + (offset > 0 ? offset : 0)};
        },
        false);
    const std::int64_t side = 3 + std::abs(offset);
    add(
        cases, "diag_embed" + std::to_string(offset + 2), {2, 3},
        [=](const Variable& x) { return diag_embed(x, offset); }, {2, side, side},
        [=](Position p) -> std::optional<Position> {
          if (p[2] - p[1] != offset) return std::nullopt;
          return Position{p[0], std::min(p[1], p[2])};
        });
  }
}

void add_others(std::vector<Case>& cases) {
  add(
      cases, "roll_all", {3, 4}, [](const Variable& x) { return roll(x, {5}); }, {3, 4},
      [](Position p) {
        const std::int64_t i = (p[0] * 4 + p[1] + 12 - 5) % 12;
        return Position{i / 4, i % 4};
      });
  add(
      cases, "rot90", {3, 4}, [](const Variable& x) { return rot90(x); }, {4, 3},
      [](Position p) {
        return Position{p[1], 3 - p[0]};
      });
  add(
      cases, "pad_and_crop", {4, 5},
      [](const Variable& x) {
        return pad(x, {2, -1, -1, 1});
      },
      {4, 6},
      [](Position p) -> std::optional<Position> {
        const Position from{p[0] + 1, p[1] - 2};
        if (from[0] > 3 || from[1] < 0) return std::nullopt;
        return from;
      },
      false);
  add(
      cases, "expand", {3, 1, 2},
      [](const Variable& x) {
        return expand(x, {4, -1, 5, 2});
      },
      {4, 3, 5, 2},
      [](Position p) {
        return Position{p[1], 0, p[3]};
      },
      true, 0, &ops::Expand::info);
  add(
      cases, "expand_scalar", {},
      [](const Variable& x) {
        return broadcast_to(x, {70, 3});
      },
      {70, 3}, [](Position) { return Position{}; }, true, 0, &ops::Expand::info);
  add(
      cases, "expand_to_nothing", {3, 1},
      [](const Variable& x) {
        return expand(x, {3, 0});
      },
      {3, 0}, [](Position p) { return p; }, false, 0, &ops::Expand::info);
  add(
      cases, "tile", {2, 3},
      [](const Variable& x) {
        return tile(x, {2, 1, 2});
      },
      {2, 2, 6},
      [](Position p) {
        return Position{p[1], p[2] % 3};
      },
      true, 0, &ops::Expand::info);
}

}  // namespace

std::vector<Case> rearrange_cases() {
  std::vector<Case> cases;
  add_axes(cases);
  add_windows(cases);
  add_diagonals(cases);
  add_others(cases);
  return cases;
}

}  // namespace binade::conformance
