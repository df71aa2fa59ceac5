#pragma once

#include <span>
#include <vector>

#include "binade/autograd/variable.h"

/// Functions that build tensors from tensors: masks, diagonals, grids. core/make.h has those that build them from
/// numbers.
namespace binade {

/// Returns x (…, rows, columns) with 0 above (tril) or below (triu) diagonal k: elements (i, j) with j - i > k, or < k.
Variable tril(const Variable& x, std::int64_t k = 0);
Variable triu(const Variable& x, std::int64_t k = 0);
/// A vector gives a square matrix with x on diagonal k; a matrix gives its diagonal k. Throws ShapeError for other
/// ranks and for a diagonal that the matrix does not have.
Variable diag(const Variable& x, std::int64_t k = 0);
/// Returns y (…, classes), i64, for indices (…): y[…, c] is 1 if the index is c, otherwise 0. An index outside of
/// [0, classes) gives zeros only. Throws DTypeError unless the indices are whole numbers.
Variable one_hot(const Variable& indices, std::int64_t classes);
/// Expands vectors to the grid that they span; vector i varies along axis i (torch's indexing = "ij").
std::vector<Variable> meshgrid(std::span<const Variable> vectors);
inline std::vector<Variable> meshgrid(std::initializer_list<Variable> vectors) {
  return meshgrid(std::span(vectors.begin(), vectors.size()));
}
/// Returns mean + deviation z with independent standard normal z; mean and deviation get gradients.
Variable normal(const Variable& mean, const Variable& deviation);

}  // namespace binade
