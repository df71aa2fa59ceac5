#pragma once

#include <cstdint>

#include "binade/core/ops/op.h"

/// Code that the linear algebra ops share: checks, and functions of f32 and f64 tensors for their formulas.
namespace binade::ops {

/// Throw ShapeError unless x is (…, rows, columns), or square (…, n, n), and DTypeError unless x is floating. The text
/// names `op`.
void check_matrices(const OpInfo& op, const Tensor& x);
void check_square(const OpInfo& op, const Tensor& x);

/// Returns x in the form in which the ops compute: contiguous, in f32 (f64 for f64).
Tensor computed(const Tensor& x);

/// Returns the batch extents of `matrices` followed by `extents`.
Shape batched(const Tensor& matrices, std::initializer_list<std::int64_t> extents);
/// Returns the number of matrices in a tensor of this shape, (…, rows, columns).
std::int64_t batch_of(const Shape& matrices);

/// Throws DataError for the first matrix whose `info` is not 0: "OP: wanted WANTED, got one FAILED; ADVICE". A {} in
/// `failed` stands for the position info - 1. `batch`: the batch extents. On a GPU this waits for the device.
void check_info(const OpInfo& op, const Tensor& info, const Shape& batch, std::string_view wanted,
                std::string_view failed, std::string_view advice);

/// Passes the gradient of input i to `gx`, in the dtype that `gx` requires.
void put(const OpContext& ctx, GradSink& gx, int i, const Tensor& gradient);
/// Returns the gradient of output i in the dtype of `like`, or zeros of the shape of `like` if nothing depends on it.
Tensor gradient_or_zeros(std::span<const Tensor> gy, std::size_t i, const Tensor& like);

/// Factors of a batch of matrices, as LuArgs describes them.
struct LuFactors {
  Tensor lu{}, pivots{}, order{}, parity{}, info{};
};
LuFactors lu_factors(const Tensor& a);
/// Returns the inverse permutation of `order`.
Tensor inverse_order(const Tensor& order);
/// Returns a^-1 b, or a^-T b, for square a with these factors. A pivot of 0 gives infinities or NaN.
Tensor lu_solve(const Tensor& lu, const Tensor& order, const Tensor& b, bool transpose);

/// The operations of linalg_formulas.h for tensors of f32 or f64. None of them throws because of values of elements.
struct TensorAlgebra {
  using Value = Tensor;
  static Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);
  static Tensor add(const Tensor& a, const Tensor& b);
  static Tensor sub(const Tensor& a, const Tensor& b);
  static Tensor mul(const Tensor& a, const Tensor& b);
  static Tensor div(const Tensor& a, const Tensor& b);
  static Tensor scaled(const Tensor& x, double factor);
  static Tensor transposed(const Tensor& x);
  static Tensor tril(const Tensor& x, std::int64_t k);
  static Tensor triu(const Tensor& x, std::int64_t k);
  static Tensor triangular(const Tensor& a, const Tensor& b, bool upper, bool transpose, bool unit);
  static Tensor narrow(const Tensor& x, int axis, std::int64_t begin, std::int64_t count);
  static Tensor concat(const Tensor& a, const Tensor& b, int axis);
  static Tensor rows(const Tensor& x, const Tensor& order);
  static Tensor row(const Tensor& x);
  static Tensor column(const Tensor& x);
  static Tensor eye(std::int64_t n, const Tensor& like);
  static Tensor matrix_exp(const Tensor& a);
};

}  // namespace binade::ops
