#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/variable.h"

/// Linear algebra. Matrices are the last two dimensions (…, m, n); the others are batches, which broadcast if there are
/// two operands. Decompositions and solutions compute in f32, and give f32 for f16 and bf16 (f64 for f64), whatever the
/// precision policy; products follow the policy like matmul(). A matrix for which a function has no result (singular,
/// not positive definite) causes a DataError that names function, module, matrix of the batch and pivot; a Trainer
/// treats it as a fault of the batch (decision 0072). An operand with NaN gives NaN. Contracts and gradients:
/// core/ops/linalg_{factor,solve,spectral,exp}.h.
namespace binade {

// ---- products ----------------------------------------------------------------------------------------------------

/// Sums of products over named axes, in PyTorch's grammar: "bij,bjk->bik". A letter names an axis; "..." stands for any
/// further axes, which broadcast. An axis with a letter that is repeated within an operand is its diagonal; letters
/// that the result lacks are summed over. Without "->" the result has the axes of "...", then the letters that occur
/// once, in the order of the alphabet (capitals first). An extent of 1 broadcasts. Operands are multiplied from left to
/// right, so their order determines the cost. Each product is one matmul(), or elementwise if no letter is summed over.
/// Throws an ArgumentError or ShapeError that names the letter and the operand.
Variable einsum(std::string_view equation, std::span<const Variable> operands);
inline Variable einsum(std::string_view equation, std::initializer_list<Variable> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}

/// The sum of the elementwise products of a and b: of two vectors (dot), or along one axis (vecdot).
Variable dot(const Variable& a, const Variable& b);
Variable vecdot(const Variable& a, const Variable& b, int axis = -1);
/// a (…, m, n) times the vectors x (…, n).
Variable mv(const Variable& a, const Variable& x);
/// a_i b_j for vectors a and b.
Variable outer(const Variable& a, const Variable& b);
/// Sums over the last `axes` axes of a and the first of b, or over the listed axes of both.
Variable tensordot(const Variable& a, const Variable& b, int axes = 2);
Variable tensordot(const Variable& a, const Variable& b, const std::vector<int>& axes_of_a,
                   const std::vector<int>& axes_of_b);
/// The Kronecker product: a tensor with extents a.dim(d) b.dim(d), for ranks up to 4.
Variable kron(const Variable& a, const Variable& b);
/// The cross product of vectors of 3 elements along an axis.
Variable cross(const Variable& a, const Variable& b, int axis = -1);
/// The product of two or more matrices, in the order that needs the fewest multiplications. The first and the last may
/// be vectors.
Variable multi_dot(std::span<const Variable> matrices);
inline Variable multi_dot(std::initializer_list<Variable> matrices) {
  return multi_dot(std::span(matrices.begin(), matrices.size()));
}
/// beta x + alpha times a product: of two matrices (addmm), of a matrix and a vector (addmv), of a column and a row
/// (addr), of the matrices of two batches (baddbmm), or the sum of the latter over the batch (addbmm). With beta 0, x
/// is not read.
Variable addmm(const Variable& x, const Variable& a, const Variable& b, double beta = 1, double alpha = 1);
Variable addmv(const Variable& x, const Variable& a, const Variable& v, double beta = 1, double alpha = 1);
Variable addr(const Variable& x, const Variable& a, const Variable& b, double beta = 1, double alpha = 1);
Variable baddbmm(const Variable& x, const Variable& a, const Variable& b, double beta = 1, double alpha = 1);
Variable addbmm(const Variable& x, const Variable& a, const Variable& b, double beta = 1, double alpha = 1);
/// y_o = the sum of a_i weight_oij b_j, + bias_o. a (…, I), b (…, J), weight (O, I, J), the optional bias (O).
Variable bilinear(const Variable& a, const Variable& b, const Variable& weight, const Variable& bias = {});
/// The p-norms (p >= 0) of the differences of all rows: a (…, m, d), b (…, n, d) -> (…, m, n). It stores the m n d
/// differences. The gradient for equal rows is 0.
Variable cdist(const Variable& a, const Variable& b, double p = 2);

// ---- matrices from others ----------------------------------------------------------------------------------------

/// The sum of the diagonal of x (…, m, n).
Variable trace(const Variable& x);
/// Matrices of zeros with the given matrices along the diagonal.
Variable block_diag(std::span<const Variable> matrices);
inline Variable block_diag(std::initializer_list<Variable> matrices) {
  return block_diag(std::span(matrices.begin(), matrices.size()));
}
/// x_i^j for j = 0 … n - 1, x (…, m) -> (…, m, n); n < 0 stands for m. `increasing` false: descending powers.
Variable vander(const Variable& x, std::int64_t n = -1, bool increasing = true);
/// a^n for a whole n. n < 0: the power -n of the inverse.
Variable matrix_power(const Variable& a, std::int64_t n);
Variable matrix_exp(const Variable& a);

/// The p-norms (p >= 0) of the differences of all pairs of rows i < j: x (n, d) -> (n (n - 1) / 2). The differences
/// take memory for n^2 d / 2 numbers. The pairs are listed on the host, so a step that calls it for a GPU is not
/// captured in a graph.
Variable pdist(const Variable& x, double p = 2);
/// Scales the slices along `axis` whose p-norm is above `most` to that norm.
Variable renorm(const Variable& x, double p, int axis, double most);

// ---- triangular factors and solutions ----------------------------------------------------------------------------

/// The lower triangular l with a = l l^T, or l^T with `upper`. Only the lower triangle of a is read.
Variable cholesky(const Variable& a, bool upper = false);
/// Solves a x = b for x, given l = cholesky(a), or l = cholesky(a, true) with `upper`. b is (…, n, k).
Variable cholesky_solve(const Variable& b, const Variable& l, bool upper = false);

/// The inverse of a, given l = cholesky(a), or l = cholesky(a, true) with `upper`.
Variable cholesky_inverse(const Variable& l, bool upper = false);

/// a = p l u with a permutation matrix p.
struct LuResult {
  Variable p{}, l{}, u{};
};
LuResult lu(const Variable& a);
/// Both triangles in one matrix, and the row exchanges (i64): step i exchanged rows i and pivots[i], counted from 0
/// (PyTorch counts from 1). Row i of l u is row order[i] of a.
struct LuFactorResult {
  Variable lu{}, pivots{}, order{};
};
LuFactorResult lu_factor(const Variable& a);

/// Solves a x = b for x, given lu_factor(a). b is (…, n, k).
Variable lu_solve(const LuFactorResult& factors, const Variable& b);

Variable det(const Variable& a);
/// The sign (-1, 0 or 1, without gradient) and the logarithm of the magnitude of the determinant, which cannot
/// overflow. A singular matrix gives 0 and -inf, and no finite gradient.
struct SlogdetResult {
  Variable sign{}, logabsdet{};
};
SlogdetResult slogdet(const Variable& a);
/// The logarithm of the determinant: NaN if it is negative, -inf if it is 0.
Variable logdet(const Variable& a);

Variable inverse(const Variable& a);
/// Solves a x = b for x. b is (…, n, k), a vector (n), or (…, n) with one vector for each matrix of a.
Variable solve(const Variable& a, const Variable& b);
/// The inverse of a as a matrix whose rows are the axes before `split` and whose columns are the other axes. Both have
/// the same number of elements. x = tensordot(tensorinv(a), b) solves tensordot(a, x) = b.
Variable tensorinv(const Variable& a, int split = 2);
/// Solves tensordot(a, x) = b for x, with a sum over all axes of x. The axes of a are those of b, then those of x; the
/// axes of a in `axes` are first moved to the end.
Variable tensorsolve(const Variable& a, const Variable& b, const std::vector<int>& axes = {});
struct TriangularOptions {
  bool upper = true;       ///< false: the lower triangle of a is read
  bool left = true;        ///< false: x a = b
  bool unit = false;       ///< the diagonal counts as 1
  bool transpose = false;  ///< solves with the transpose of the triangle
};
/// Solves a x = b for x with one triangle of a. b is (…, n, k), or (…, k, n) if `left` is false.
Variable triangular_solve(const Variable& a, const Variable& b, const TriangularOptions& options = {});

// ---- orthogonal decompositions -----------------------------------------------------------------------------------

enum class QrMode {
  kReduced,   ///< q (…, m, k), r (…, k, n), k = min(m, n)
  kComplete,  ///< q (…, m, m), r (…, m, n); no gradient for m > n
};
struct QrResult {
  Variable q{}, r{};
};
/// The first n columns of the product of k reflections I - tau_i v_i v_i^T, where v_i is column i of a (…, m, n) below
/// the diagonal, with 1 on it and 0 above; tau (…, k), k <= n <= m: LAPACK's orgqr. For its gradient, all k
/// intermediate products (…, m, n) are kept.
Variable householder_product(const Variable& a, const Variable& tau);
QrResult qr(const Variable& a, QrMode mode = QrMode::kReduced);

/// The eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix. Only its lower triangle is read.
struct EighResult {
  Variable values{}, vectors{};
};
EighResult eigh(const Variable& a);
Variable eigvalsh(const Variable& a);

/// a = u diag(s) vh with s descending.
struct SvdResult {
  Variable u{}, s{}, vh{};
};
SvdResult svd(const Variable& a, bool full_matrices = true);
Variable svdvals(const Variable& a);

/// The x that minimizes |a x - b|, and among several such x the one that minimizes |x|. a must have full rank; b is as
/// in solve(). The residuals are the squared norms of the columns of a x - b (…, k). Throws DataError for a matrix
/// without full rank, for which matmul(pinv(a), b) is a solution.
struct LstsqResult {
  Variable solution{}, residuals{};
};
LstsqResult lstsq(const Variable& a, const Variable& b);
/// The pseudoinverse. Singular values of at most rtol times the largest one count as 0; by default rtol is
/// max(m, n) 2^-23 (2^-52 in f64). The gradient is correct for changes that keep the rank.
Variable pinv(const Variable& a, std::optional<double> rtol = {});
/// The number (i64) of singular values above rtol times the largest one; rtol as in pinv().
Variable matrix_rank(const Variable& a, std::optional<double> rtol = {});

// ---- norms -------------------------------------------------------------------------------------------------------

enum class MatrixNorm {
  kFrobenius,  ///< root of the sum of squares
  kNuclear,    ///< sum of the singular values
  kOne,        ///< largest sum of the magnitudes of a column
  kMinusOne,   ///< smallest sum of the magnitudes of a column
  kTwo,        ///< largest singular value
  kMinusTwo,   ///< smallest singular value
  kInf,        ///< largest sum of the magnitudes of a row
  kMinusInf,   ///< smallest sum of the magnitudes of a row
};
Variable matrix_norm(const Variable& a, MatrixNorm which = MatrixNorm::kFrobenius, bool keepdim = false);
/// norm() under PyTorch's name.
Variable vector_norm(const Variable& x, double p = 2, Axes axes = {}, bool keepdim = false);
/// The condition number: the norm of a times the norm of a^-1. kTwo and kMinusTwo are quotients of singular values: inf
/// and 0 for a singular matrix. The others throw DataError for a singular matrix.
Variable cond(const Variable& a, MatrixNorm which = MatrixNorm::kTwo);

}  // namespace binade
