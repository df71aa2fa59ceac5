#include "binade/autograd/functions/make.h"

#include <algorithm>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/make.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Returns j - i - k for element (i, j) of a matrix.
Variable beyond_diagonal(std::int64_t rows, std::int64_t columns, std::int64_t k, Device device) {
  const Variable i = reshape(arange(std::int64_t{0}, rows, std::int64_t{1}, DType::i64, device), {rows, 1});
  return arange(std::int64_t{0}, columns, std::int64_t{1}, DType::i64, device) - i - k;
}

/// Returns x where the mask is true, else 0.
Variable kept(const Variable& mask, const Variable& x) {
  if (!is_floating(x.dtype())) return x * cast(mask, x.dtype());
  return where(mask, x, Tensor::zeros(Shape{}, x.dtype(), x.device()));
}

void check_matrix(const char* function, const Variable& x) {
  check<ShapeError>(x.value().rank() >= 2, "{}: wanted a matrix (…, rows, columns), got {}", where(function),
                    x.shape());
}

}  // namespace

Variable tril(const Variable& x, std::int64_t k) {
  check_matrix("tril", x);
  return kept(beyond_diagonal(x.dim(-2), x.dim(-1), std::clamp(k, -x.dim(-2), x.dim(-1)), x.device()) <= 0, x);
}

Variable triu(const Variable& x, std::int64_t k) {
  check_matrix("triu", x);
  return kept(beyond_diagonal(x.dim(-2), x.dim(-1), std::clamp(k, -x.dim(-2), x.dim(-1)), x.device()) >= 0, x);
}

Variable diag(const Variable& x, std::int64_t k) {
  const int rank = x.value().rank();
  check<ShapeError>(rank == 1 || rank == 2, "{}: wanted a vector or a matrix, got {}", where("diag"), x.shape());
  constexpr std::int64_t kFarthest = std::int64_t{1} << 31;
  check<ShapeError>(k >= -kFarthest && k <= kFarthest, "{}: wanted a diagonal from {} to {}, got {}", where("diag"),
                    -kFarthest, kFarthest, k);
  if (rank == 1) {
    const std::int64_t away = k < 0 ? -k : k;
    const std::int64_t n = x.dim(0) + away;
    Variable rows = x;  // the element of diagonal k in each row, 0 if there is none
    if (away > 0) {
      const Variable zeros = Tensor::zeros(Shape{away}, x.dtype(), x.device());
      rows = k > 0 ? concat({x, zeros}, 0) : concat({zeros, x}, 0);
    }
    return kept(beyond_diagonal(n, n, k, x.device()) == 0, reshape(rows, {n, 1}));
  }
  const std::int64_t first = k < 0 ? -k : 0, count = std::min(x.dim(0) - first, x.dim(1) - (k > 0 ? k : 0));
  check<ShapeError>(count >= 0, "{}: wanted a diagonal of {}, got {}", where("diag"), x.shape(), k);
  const Variable line = sum(kept(beyond_diagonal(x.dim(0), x.dim(1), k, x.device()) == 0, x), 1);
  return cast(narrow(line, 0, first, count), x.dtype());
}

Variable one_hot(const Variable& indices, std::int64_t classes) {
  check<DTypeError>(!is_floating(indices.dtype()), "{}: wanted whole indices, got {}", where("one_hot"),
                    name_of(indices.dtype()));
  check<ArgumentError>(classes >= 1, "{}: wanted 1 or more classes, got {}", where("one_hot"), classes);
  std::vector<std::int64_t> dims(indices.shape().dims().begin(), indices.shape().dims().end());
  dims.push_back(1);
  return cast(reshape(indices, std::move(dims)) ==
                  Variable(arange(std::int64_t{0}, classes, std::int64_t{1}, DType::i64, indices.device())),
              DType::i64);
}

std::vector<Variable> meshgrid(std::span<const Variable> vectors) {
  std::vector<std::int64_t> dims;
  for (const Variable& v : vectors) {
    check<ShapeError>(v.value().rank() == 1, "{}: wanted vectors, got {}", where("meshgrid"), v.shape());
    dims.push_back(v.dim(0));
  }
  std::vector<Variable> grids;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    std::vector<std::int64_t> along(dims.size(), 1);
    along[i] = dims[i];
    const Tensor ones = Tensor::full(Shape(std::span<const std::int64_t>(dims)), 1, vectors[i].dtype(),
                                     vectors[i].device());
    grids.push_back(reshape(vectors[i], std::move(along)) * ones);
  }
  return grids;
}

Variable normal(const Variable& mean, const Variable& deviation) {
  const Shape shape = broadcast(mean.shape(), deviation.shape(), "normal");
  return mean + deviation * randn(shape, promoted(mean.dtype(), deviation.dtype()), mean.device());
}

}  // namespace binade
