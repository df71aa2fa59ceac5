#include <algorithm>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/linalg.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/move.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

int rank_of(const Variable& x) { return x.value().rank(); }
std::vector<std::int64_t> dims_of(const Variable& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }

void check_rank(const char* function, const char* argument, const Variable& x, int rank, const char* wanted) {
  check<ShapeError>(rank_of(x) == rank, "{}: wanted {} {}, got {}", where(function), argument, wanted, x.shape());
}

/// Returns beta x + alpha product. x broadcasts to the product.
Variable combined(const Variable& x, const Variable& product, double beta, double alpha) {
  const Variable scaled = alpha == 1 ? product : product * alpha;
  if (beta == 0) return scaled;
  return (beta == 1 ? x : x * beta) + scaled;
}

void check_broadcasts(const char* function, const Variable& x, const Variable& product) {
  check<ShapeError>(broadcast(x.shape(), product.shape(), function) == product.shape(),
                    "{}: wanted x that broadcasts to the product {}, got {}", where(function), product.shape(),
                    x.shape());
}

/// splits[first][last]: the matrix after which the product of matrices first … last is split for the fewest
/// multiplications. Matrix i has the shape (dims[i], dims[i + 1]).
using Splits = std::vector<std::vector<std::size_t>>;
Splits best_splits(const std::vector<std::int64_t>& dims) {
  const std::size_t n = dims.size() - 1;
  Splits split(n, std::vector<std::size_t>(n));
  std::vector<std::vector<double>> cost(n, std::vector<double>(n));
  for (std::size_t length = 1; length < n; ++length)
    for (std::size_t first = 0; first + length < n; ++first) {
      const std::size_t last = first + length;
      cost[first][last] = std::numeric_limits<double>::infinity();
      for (std::size_t at = first; at < last; ++at) {
        const double c = cost[first][at] + cost[at + 1][last] +
                         static_cast<double>(dims[first]) * static_cast<double>(dims[at + 1]) *
                             static_cast<double>(dims[last + 1]);
        if (c < cost[first][last]) {
          cost[first][last] = c;
          split[first][last] = at;
        }
      }
    }
  return split;
}

Variable product_of(std::span<const Variable> matrices, const Splits& splits, std::size_t first, std::size_t last) {
  if (first == last) return matrices[first];
  const std::size_t at = splits[first][last];
  return matmul(product_of(matrices, splits, first, at), product_of(matrices, splits, at + 1, last));
}

}  // namespace

Variable vecdot(const Variable& a, const Variable& b, int axis) {
  const Shape shape = broadcast(a.shape(), b.shape(), "vecdot");
  const int at = ops::checked_axis("vecdot", axis, shape.rank());
  check<ShapeError>(at - shape.rank() >= -rank_of(a) && at - shape.rank() >= -rank_of(b) &&
                        a.dim(at - shape.rank()) == b.dim(at - shape.rank()),
                    "{}: wanted vectors of one length along axis {}, got {} and {}", where("vecdot"), axis, a.shape(),
                    b.shape());
  return sum(a * b, at);
}

Variable dot(const Variable& a, const Variable& b) {
  check_rank("dot", "a", a, 1, "(n)");
  check_rank("dot", "b", b, 1, "(n)");
  check<ShapeError>(a.shape() == b.shape(), "{}: wanted vectors of one length, got {} and {}", where("dot"), a.shape(),
                    b.shape());
  return sum(a * b);
}

Variable mv(const Variable& a, const Variable& x) {
  check<ShapeError>(rank_of(a) >= 2 && rank_of(x) >= 1 && a.dim(-1) == x.dim(-1),
                    "{}: wanted a (…, m, n) and x (…, n), got {} and {}", where("mv"), a.shape(), x.shape());
  return squeeze(matmul(a, unsqueeze(x, -1)), -1);
}

Variable outer(const Variable& a, const Variable& b) {
  check_rank("outer", "a", a, 1, "(m)");
  check_rank("outer", "b", b, 1, "(n)");
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}

Variable tensordot(const Variable& a, const Variable& b, int axes) {
  check<ArgumentError>(axes >= 0 && axes <= rank_of(a) && axes <= rank_of(b),
                       "{}: wanted a number of axes that {} and {} both have, got {}", where("tensordot"), a.shape(),
                       b.shape(), axes);
  std::vector<int> of_a, of_b;
  for (int i = 0; i < axes; ++i) {
    of_a.push_back(rank_of(a) - axes + i);
    of_b.push_back(i);
  }
  return tensordot(a, b, of_a, of_b);
}

Variable tensordot(const Variable& a, const Variable& b, const std::vector<int>& axes_of_a,
                   const std::vector<int>& axes_of_b) {
  constexpr const char* kName = "tensordot";
  check<ArgumentError>(axes_of_a.size() == axes_of_b.size(), "{}: wanted as many axes of a as of b, got {} and {}",
                       where(kName), axes_of_a.size(), axes_of_b.size());
  std::vector<int> summed_a, summed_b, order_a, order_b;
  std::vector<std::int64_t> dims;
  std::int64_t rows = 1, columns = 1, k = 1;
  for (std::size_t i = 0; i < axes_of_a.size(); ++i) {
    const int at_a = ops::checked_axis(kName, axes_of_a[i], rank_of(a)),
              at_b = ops::checked_axis(kName, axes_of_b[i], rank_of(b));
    check<ArgumentError>(std::ranges::count(summed_a, at_a) == 0 && std::ranges::count(summed_b, at_b) == 0,
                         "{}: wanted different axes, got one twice", where(kName));
    check<ShapeError>(a.dim(at_a) == b.dim(at_b), "{}: wanted equal extents, got axis {} of {} and axis {} of {}",
                      where(kName), at_a, a.shape(), at_b, b.shape());
    summed_a.push_back(at_a);
    summed_b.push_back(at_b);
    k *= a.dim(at_a);
  }
  for (int d = 0; d < rank_of(a); ++d) {
    if (std::ranges::count(summed_a, d) > 0) continue;
    order_a.push_back(d);
    dims.push_back(a.dim(d));
    rows *= a.dim(d);
  }
  order_b = summed_b;
  for (int d = 0; d < rank_of(b); ++d) {
    if (std::ranges::count(summed_b, d) > 0) continue;
    order_b.push_back(d);
    dims.push_back(b.dim(d));
    columns *= b.dim(d);
  }
  order_a.insert(order_a.end(), summed_a.begin(), summed_a.end());
  const Variable left = reshape(permute(a, order_a), {rows, k}), right = reshape(permute(b, order_b), {k, columns});
  return reshape(matmul(left, right), dims);
}

Variable kron(const Variable& a, const Variable& b) {
  const int rank = std::max(rank_of(a), rank_of(b));
  check<ShapeError>(2 * rank <= Shape::kMaxRank, "{}: wanted at most {} dimensions, got {} and {}", where("kron"),
                    Shape::kMaxRank / 2, a.shape(), b.shape());
  std::vector<std::int64_t> of_a, of_b, product;
  for (int d = -rank; d < 0; ++d) {
    const std::int64_t extent_a = d >= -rank_of(a) ? a.dim(d) : 1, extent_b = d >= -rank_of(b) ? b.dim(d) : 1;
    of_a.insert(of_a.end(), {extent_a, 1});
    of_b.insert(of_b.end(), {1, extent_b});
  }
  const Variable products = reshape(a, of_a) * reshape(b, of_b);
  for (int d = 0; d < 2 * rank; d += 2) product.push_back(products.dim(d) * products.dim(d + 1));
  return reshape(products, product);
}

Variable cross(const Variable& a, const Variable& b, int axis) {
  const int rank = std::max(rank_of(a), rank_of(b));
  const int at = ops::checked_axis("cross", axis, rank) - rank;  // from the end, where broadcasting aligns shapes
  check<ShapeError>(at >= -rank_of(a) && at >= -rank_of(b) && a.dim(at) == 3 && b.dim(at) == 3,
                    "{}: wanted 3 elements along axis {}, got {} and {}", where("cross"), axis, a.shape(), b.shape());
  return roll(a, {-1}, {at}) * roll(b, {-2}, {at}) - roll(a, {-2}, {at}) * roll(b, {-1}, {at});
}

Variable multi_dot(std::span<const Variable> matrices) {
  constexpr const char* kName = "multi_dot";
  const std::size_t n = matrices.size();
  check<ArgumentError>(n >= 2, "{}: wanted two or more matrices, got {}", where(kName), n);
  std::vector<Variable> all(matrices.begin(), matrices.end());
  const bool row = rank_of(all.front()) == 1, column = rank_of(all.back()) == 1;
  if (row) all.front() = unsqueeze(all.front(), 0);
  if (column) all.back() = unsqueeze(all.back(), 1);
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < n; ++i) {
    check<ShapeError>(rank_of(all[i]) == 2 && (i == 0 || dims.back() == all[i].dim(0)),
                      "{}: wanted matrices that can be multiplied one after the other, got {} at position {}",
                      where(kName), matrices[i].shape(), i);
    if (i == 0) dims.push_back(all[i].dim(0));
    dims.push_back(all[i].dim(1));
  }
  Variable y = product_of(all, best_splits(dims), 0, n - 1);
  if (column) y = squeeze(y, 1);
  return row ? squeeze(y, 0) : y;
}

Variable addmm(const Variable& x, const Variable& a, const Variable& b, double beta, double alpha) {
  check_rank("addmm", "a", a, 2, "(m, k)");
  check_rank("addmm", "b", b, 2, "(k, n)");
  const Variable product = matmul(a, b);
  check_broadcasts("addmm", x, product);
  return combined(x, product, beta, alpha);
}

Variable addmv(const Variable& x, const Variable& a, const Variable& v, double beta, double alpha) {
  check_rank("addmv", "a", a, 2, "(m, n)");
  check_rank("addmv", "the vector", v, 1, "(n)");
  const Variable product = mv(a, v);
  check_broadcasts("addmv", x, product);
  return combined(x, product, beta, alpha);
}

Variable addr(const Variable& x, const Variable& a, const Variable& b, double beta, double alpha) {
  const Variable product = outer(a, b);
  check_broadcasts("addr", x, product);
  return combined(x, product, beta, alpha);
}

Variable baddbmm(const Variable& x, const Variable& a, const Variable& b, double beta, double alpha) {
  check_rank("baddbmm", "a", a, 3, "(batch, m, k)");
  check_rank("baddbmm", "b", b, 3, "(batch, k, n)");
  const Variable product = matmul(a, b);
  check_broadcasts("baddbmm", x, product);
  return combined(x, product, beta, alpha);
}

Variable addbmm(const Variable& x, const Variable& a, const Variable& b, double beta, double alpha) {
  check_rank("addbmm", "a", a, 3, "(batch, m, k)");
  check_rank("addbmm", "b", b, 3, "(batch, k, n)");
  const Variable product = tensordot(a, b, {0, 2}, {0, 1});
  check_broadcasts("addbmm", x, product);
  return combined(x, product, beta, alpha);
}

Variable bilinear(const Variable& a, const Variable& b, const Variable& weight, const Variable& bias) {
  check_rank("bilinear", "a weight", weight, 3, "(O, I, J)");
  check<ShapeError>(rank_of(a) >= 1 && rank_of(a) == rank_of(b) && a.dim(-1) == weight.dim(1) &&
                        b.dim(-1) == weight.dim(2),
                    "{}: wanted a (…, I), b (…, J) and a weight (O, I, J), got {}, {} and {}", where("bilinear"),
                    a.shape(), b.shape(), weight.shape());
  const Variable y = einsum("...i,oij,...j->...o", {a, weight, b});
  if (!bias.defined()) return y;
  check<ShapeError>(bias.shape() == Shape{weight.dim(0)}, "{}: wanted a bias ({}), got {}", where("bilinear"),
                    weight.dim(0), bias.shape());
  return y + bias;
}

Variable cdist(const Variable& a, const Variable& b, double p) {
  check<ShapeError>(rank_of(a) >= 2 && rank_of(b) >= 2 && a.dim(-1) == b.dim(-1),
                    "{}: wanted a (…, m, d) and b (…, n, d), got {} and {}", where("cdist"), a.shape(), b.shape());
  check<ArgumentError>(p >= 0, "{}: wanted p >= 0, got {}", where("cdist"), p);
  return norm(unsqueeze(a, -2) - unsqueeze(b, -3), p, -1);
}

Variable trace(const Variable& x) {
  check<ShapeError>(rank_of(x) >= 2, "{}: wanted matrices (…, m, n), got {}", where("trace"), x.shape());
  return sum(diagonal(x, 0, -2, -1), -1);
}

Variable block_diag(std::span<const Variable> matrices) {
  constexpr const char* kName = "block_diag";
  check<ArgumentError>(!matrices.empty(), "{}: wanted one or more matrices, got none", where(kName));
  std::int64_t columns = 0, before = 0;
  for (const Variable& m : matrices) {
    check_rank(kName, "matrices", m, 2, "(m, n)");
    columns += m.dim(1);
  }
  std::vector<Variable> rows;
  for (const Variable& m : matrices) {
    rows.push_back(pad(m, {before, columns - before - m.dim(1)}));
    before += m.dim(1);
  }
  return concat(rows, 0);
}

Variable vander(const Variable& x, std::int64_t n, bool increasing) {
  constexpr std::int64_t kMost = 1 << 16;
  check<ShapeError>(rank_of(x) >= 1, "{}: wanted (…, m), got {}", where("vander"), x.shape());
  const std::int64_t count = n < 0 ? x.dim(-1) : n;
  check<ArgumentError>(count <= kMost, "{}: wanted at most {} powers, got {}", where("vander"), kMost, count);
  std::vector<Variable> powers;
  for (std::int64_t j = 0; j < count; ++j)
    powers.push_back(j == 0 ? Variable(Tensor::full(x.shape(), 1, x.dtype(), x.device())) : powers.back() * x);
  if (!increasing) std::ranges::reverse(powers);
  if (!powers.empty()) return stack(powers, -1);
  std::vector<std::int64_t> dims = dims_of(x);
  dims.push_back(0);
  return Tensor::empty(Shape(std::span<const std::int64_t>(dims)), x.dtype(), x.device());
}

}  // namespace binade
