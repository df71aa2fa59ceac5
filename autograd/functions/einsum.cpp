#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/linalg.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// A letter, or -1, -2, … for the axes of an ellipsis, counted from the last. The result of an equation without "->"
/// has its labels in ascending order.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) { return std::ranges::find(labels, label) != labels.end(); }

std::string name_of(Label label) {
  return label < 0 ? "an axis of '...'" : fmt::format("letter '{}'", static_cast<char>(label));
}

/// The subscripts of one operand or of the result.
struct Subscripts {
  Labels before{}, after{};  ///< letters before and after the ellipsis
  bool ellipsis = false;

  int letters() const { return static_cast<int>(before.size() + after.size()); }
  /// Returns all labels, with `axes` for the ellipsis.
  Labels with_ellipsis(int axes) const {
    Labels all = before;
    for (int i = axes; i > 0; --i) all.push_back(-i);
    all.insert(all.end(), after.begin(), after.end());
    return all;
  }
};

/// A factor of the product, with a label for each axis.
struct Factor {
  Variable x{};
  Labels labels{};
};

/// The parsed equation of one call. Error texts quote it.
class Equation {
 public:
  explicit Equation(std::string_view text) : text_(text) {
    std::string dense;
    for (const char c : text)
      if (c != ' ') dense += c;
    const std::size_t arrow = dense.find("->");
    std::string_view rest = std::string_view(dense).substr(0, arrow);
    for (std::size_t comma = rest.find(','); comma != rest.npos; comma = rest.find(',')) {
      operands_.push_back(parsed(rest.substr(0, comma)));
      rest.remove_prefix(comma + 1);
    }
    operands_.push_back(parsed(rest));
    if (arrow != dense.npos) result_ = parsed(std::string_view(dense).substr(arrow + 2));
  }

  const std::vector<Subscripts>& operands() const { return operands_; }

  /// Throws E with the equation and the formatted text unless `holds`.
  template <class E, class... Args>
  void require(bool holds, fmt::format_string<Args...> text, Args&&... args) const {
    if (!holds) [[unlikely]]
      throw E(fmt::format("{}: '{}': {}", where("einsum"), text_, fmt::format(text, std::forward<Args>(args)...)));
  }

  /// Returns the labels of the result, given those of the operands.
  Labels result(const std::vector<Factor>& factors, int ellipsis_axes) const {
    std::map<Label, int> uses;
    for (const Factor& f : factors)
      for (const Label label : f.labels) ++uses[label];
    Labels labels;
    if (result_) {
      labels = result_->with_ellipsis(result_->ellipsis ? ellipsis_axes : 0);
      for (std::size_t i = 0; i < labels.size(); ++i) {
        require<ArgumentError>(uses.contains(labels[i]), "no operand has the {} of the result", name_of(labels[i]));
        require<ArgumentError>(std::count(labels.begin(), labels.end(), labels[i]) == 1, "the result has the {} twice",
                               name_of(labels[i]));
      }
      return labels;
    }
    for (const auto& [label, count] : uses)
      if (label < 0 || count == 1) labels.push_back(label);
    return labels;
  }

 private:
  Subscripts parsed(std::string_view part) const {
    Subscripts s;
    while (!part.empty()) {
      const char c = part.front();
      if (part.starts_with("...")) {
        require<ArgumentError>(!s.ellipsis, "an operand has '...' twice");
        s.ellipsis = true;
        part.remove_prefix(3);
        continue;
      }
      require<ArgumentError>((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'),
                             "wanted letters, ',', '...' and one '->', got '{}'", c);
      (s.ellipsis ? s.after : s.before).push_back(c);
      part.remove_prefix(1);
    }
    return s;
  }

  std::string_view text_;
  std::vector<Subscripts> operands_;
  std::optional<Subscripts> result_;
};

/// Replaces axes with the same label by their diagonal.
void take_diagonals(const Equation& equation, Factor& f, std::size_t operand) {
  for (std::size_t i = 0; i < f.labels.size(); ++i)
    for (std::size_t j = i + 1; j < f.labels.size(); ++j) {
      if (f.labels[i] != f.labels[j]) continue;
      const Label label = f.labels[i];
      const int a = static_cast<int>(i), b = static_cast<int>(j);
      equation.require<ShapeError>(f.x.dim(a) == f.x.dim(b), "{} has extents {} and {} in operand {}, {}",
                                   name_of(label), f.x.dim(a), f.x.dim(b), operand, f.x.shape());
      f.x = diagonal(f.x, 0, a, b);
      f.labels.erase(f.labels.begin() + b);
      f.labels.erase(f.labels.begin() + a);
      f.labels.push_back(label);
      i = static_cast<std::size_t>(-1);  // the labels have moved: begin again
      break;
    }
}

/// Sums over the axes whose label `stays` does not accept.
template <class F>
void sum_others(Factor& f, F&& stays) {
  std::vector<int> axes;
  Labels left;
  for (std::size_t d = 0; d < f.labels.size(); ++d) {
    if (stays(f.labels[d]))
      left.push_back(f.labels[d]);
    else
      axes.push_back(static_cast<int>(d));
  }
  if (axes.empty()) return;
  f.x = sum(f.x, axes);
  f.labels = left;
}

Labels joined(const Labels& a, const Labels& b, const Labels& c = {}) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

Variable in_order(const Factor& f, const Labels& order) {
  std::vector<int> axes;
  for (const Label label : order)
    axes.push_back(static_cast<int>(std::ranges::find(f.labels, label) - f.labels.begin()));
  return std::ranges::is_sorted(axes) ? f.x : permute(f.x, axes);
}

/// The extent of the axis with each label.
class Extents {
 public:
  void note(const Factor& f) {
    for (std::size_t d = 0; d < f.labels.size(); ++d) of_[f.labels[d]] = f.x.dim(static_cast<int>(d));
  }
  std::vector<std::int64_t> dims(const Labels& labels) const {
    std::vector<std::int64_t> extents;
    for (const Label label : labels) extents.push_back(of_.at(label));
    return extents;
  }
  std::int64_t product(const Labels& labels) const {
    std::int64_t p = 1;
    for (const std::int64_t extent : dims(labels)) p *= extent;
    return p;
  }

 private:
  std::map<Label, std::int64_t> of_;
};

/// Returns the product of a and b, summed over the labels that `stays` does not accept.
template <class F>
Factor contracted(Factor a, Factor b, F&& stays) {
  sum_others(a, [&](Label label) { return stays(label) || contains(b.labels, label); });
  sum_others(b, [&](Label label) { return stays(label) || contains(a.labels, label); });
  Labels batch, summed, of_a, of_b;
  for (const Label label : a.labels)
    (!contains(b.labels, label) ? of_a : stays(label) ? batch : summed).push_back(label);
  for (const Label label : b.labels)
    if (!contains(a.labels, label)) of_b.push_back(label);
  Extents extents;
  extents.note(a);
  extents.note(b);
  const std::int64_t n = extents.product(batch), rows = extents.product(of_a), columns = extents.product(of_b),
                     k = extents.product(summed);
  const Labels labels = joined(batch, of_a, of_b);
  if (summed.empty()) {
    const Variable left = reshape(in_order(a, joined(batch, of_a)), {n, rows, 1});
    const Variable right = reshape(in_order(b, joined(batch, of_b)), {n, 1, columns});
    return {reshape(left * right, extents.dims(labels)), labels};
  }
  // Operands that are transposed matrices already are multiplied as such, without a copy.
  const bool transpose_a = a.labels == joined(batch, summed, of_a) && !of_a.empty();
  const bool transpose_b = b.labels == joined(batch, of_b, summed) && !of_b.empty();
  Variable left = in_order(a, transpose_a ? joined(batch, summed, of_a) : joined(batch, of_a, summed));
  Variable right = in_order(b, transpose_b ? joined(batch, of_b, summed) : joined(batch, summed, of_b));
  const auto matrices = [&](const Variable& x, bool transpose, std::int64_t height, std::int64_t width) {
    if (transpose) std::swap(height, width);
    return batch.empty() ? reshape(x, {height, width}) : reshape(x, {n, height, width});
  };
  left = matrices(left, transpose_a, rows, k);
  right = matrices(right, transpose_b, k, columns);
  return {reshape(matmul(left, right, {.transpose_a = transpose_a, .transpose_b = transpose_b}), extents.dims(labels)),
          labels};
}

/// Returns the operands with their labels, and the number of axes of the ellipsis.
std::pair<std::vector<Factor>, int> factors_of(const Equation& equation, std::span<const Variable> operands) {
  equation.require<ArgumentError>(equation.operands().size() == operands.size(),
                                  "the equation has {} operands, and {} were given", equation.operands().size(),
                                  operands.size());
  std::vector<Factor> factors;
  int most = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Subscripts& s = equation.operands()[i];
    equation.require<ArgumentError>(operands[i].defined(), "operand {} is undefined", i + 1);
    equation.require<DTypeError>(is_floating(operands[i].dtype()), "operand {} is {}, wanted a floating dtype", i + 1,
                                 binade::name_of(operands[i].dtype()));
    const int axes = operands[i].value().rank() - s.letters();
    equation.require<ShapeError>(s.ellipsis ? axes >= 0 : axes == 0, "operand {} has {} letters and {} axes, {}", i + 1,
                                 s.letters(), operands[i].value().rank(), operands[i].shape());
    most = std::max(most, axes);
    factors.push_back({operands[i], s.with_ellipsis(axes)});
  }
  return {factors, most};
}

/// Checks that the extents of each label agree, and removes axes of extent 1 if another operand has more.
void align(const Equation& equation, std::vector<Factor>& factors) {
  std::map<Label, std::pair<std::int64_t, std::size_t>> extents;  // and the operand that has it
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t d = 0; d < factors[i].labels.size(); ++d) {
      const std::int64_t extent = factors[i].x.dim(static_cast<int>(d));
      auto& [known, from] = extents.try_emplace(factors[i].labels[d], extent, i).first->second;
      equation.require<ShapeError>(known == extent || known == 1 || extent == 1,
                                   "{} has extent {} in operand {} and {} in operand {}", name_of(factors[i].labels[d]),
                                   known, from + 1, extent, i + 1);
      if (known == 1 && extent != 1) {
        known = extent;
        from = i;
      }
    }
  for (Factor& f : factors)
    for (std::size_t d = f.labels.size(); d-- > 0;) {
      if (f.x.dim(static_cast<int>(d)) == extents.at(f.labels[d]).first) continue;
      f.x = squeeze(f.x, static_cast<int>(d));
      f.labels.erase(f.labels.begin() + static_cast<std::ptrdiff_t>(d));
    }
}

}  // namespace

Variable einsum(std::string_view text, std::span<const Variable> operands) {
  const Equation equation(text);
  std::pair<std::vector<Factor>, int> read = factors_of(equation, operands);
  std::vector<Factor>& factors = read.first;
  const Labels result = equation.result(factors, read.second);
  for (std::size_t i = 0; i < factors.size(); ++i) take_diagonals(equation, factors[i], i + 1);
  align(equation, factors);
  Factor product = factors.front();
  for (std::size_t i = 1; i < factors.size(); ++i) {
    const auto stays = [&](Label label) {
      if (contains(result, label)) return true;
      for (std::size_t later = i + 1; later < factors.size(); ++later)
        if (contains(factors[later].labels, label)) return true;
      return false;
    };
    product = contracted(product, factors[i], stays);
  }
  sum_others(product, [&](Label label) { return contains(result, label); });
  return in_order(product, result);
}

}  // namespace binade
