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
/// Returns 1 (i64) where the last axis, of extent `classes`, has the index, else 0; of an index outside of [0, classes)
/// there is no 1. indices (…) -> (…, classes). Throws DTypeError unless the indices are whole numbers.
Variable one_hot(const Variable& indices, std::int64_t classes);
/// Repeats vectors to the grid that they span, the first along axis 0 (torch's indexing = "ij").
std::vector<Variable> meshgrid(std::span<const Variable> vectors);
inline std::vector<Variable> meshgrid(std::initializer_list<Variable> vectors) {
  return meshgrid(std::span(vectors.begin(), vectors.size()));
}
/// Returns mean + deviation z with independent standard normal z; the gradients reach both (the reparametrization).
Variable normal(const Variable& mean, const Variable& deviation);

}  // namespace binade
