#include "binade/core/ops/linalg_tensors.h"

#include <algorithm>
#include <array>
#include <string>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/make.h"
#include "binade/core/ops/binary.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/linalg_exp.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/order.h"
#include "binade/core/ops/permute.h"
#include "binade/core/ops/rearrange.h"
#include "binade/core/ops/slice.h"
#include "binade/core/ops/unary.h"
#include "binade/core/ops/where.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Runs an op on tensors of one dtype without recording it, and returns its first output.
template <class Op, std::size_t n>
Tensor run(const std::array<Tensor, n>& in, const typename Op::Params& p = {}) {
  OpContext ctx;
  ctx.store_dtype = in.front().dtype();
  ctx.inputs.resize(n);
  return Op::forward(ctx, in, p).front();
}

/// Returns x with 0 in place of the elements for which `keeps(column - row)` is false.
template <class F>
Tensor kept(const Tensor& x, F&& keeps) {
  if (x.numel() == 0) return x;
  const std::int64_t rows = x.dim(-2), columns = x.dim(-1);
  Tensor mask = Tensor::empty(Shape{rows, columns}, DType::boolean);
  bool* to = mask.mutable_data<bool>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) *to++ = keeps(j - i);
  OpContext ctx;
  ctx.store_dtype = x.dtype();
  ctx.inputs.resize(3);
  const std::array in{mask.to(x.device()), x, Tensor::zeros(Shape{}, x.dtype(), x.device())};
  return Where::forward(ctx, in, {}).front();
}

Shape with_extents(const Tensor& x, int kept, std::initializer_list<std::int64_t> extents) {
  std::vector<std::int64_t> dims(x.shape().dims().begin(), x.shape().dims().begin() + kept);
  dims.insert(dims.end(), extents);
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

void check_matrices(const OpInfo& op, const Tensor& x) {
  detail::check_floating(op, std::span(&x, 1));
  check<ShapeError>(x.rank() >= 2, "{}: wanted matrices (…, m, n), got {}", where(op.name), x.shape());
  if (x.numel() > 0) return;
  constexpr std::int64_t kMost = 1 << 24;  // results have elements even if the matrices have none
  double batch = 1;
  for (int d = 0; d < x.rank() - 2; ++d) batch *= static_cast<double>(x.dim(d));
  check<ShapeError>(batch <= kMost && x.dim(-1) <= kMost && x.dim(-2) <= kMost,
                    "{}: wanted extents of at most {} for matrices without elements, got {}", where(op.name), kMost,
                    x.shape());
}

void check_square(const OpInfo& op, const Tensor& x) {
  check_matrices(op, x);
  check<ShapeError>(x.dim(-1) == x.dim(-2), "{}: wanted square matrices (…, n, n), got {}", where(op.name), x.shape());
}

Tensor computed(const Tensor& x) { return x.to(accumulate_dtype(x.dtype())).contiguous_copy(); }

Shape batched(const Tensor& matrices, std::initializer_list<std::int64_t> extents) {
  return with_extents(matrices, matrices.rank() - 2, extents);
}

std::int64_t batch_of(const Shape& matrices) {
  std::int64_t batch = 1;
  for (int d = 0; d < matrices.rank() - 2; ++d) batch *= matrices[d];
  return batch;
}

void check_info(const OpInfo& op, const Tensor& info, const Shape& batch, std::string_view wanted,
                std::string_view failed, std::string_view advice) {
  if (info.numel() == 0) return;
  const Tensor host = info.on_host();
  const std::int64_t* numbers = host.data<std::int64_t>();
  const std::int64_t* bad = std::find_if(numbers, numbers + host.numel(), [](std::int64_t n) { return n != 0; });
  if (bad == numbers + host.numel()) return;
  const std::string number = batch.rank() == 0
                                 ? ""
                                 : fmt::format(" (number {} of the batch {})", batch.position(bad - numbers), batch);
  const std::int64_t position = *bad - 1;
  throw DataError(fmt::format("{}: wanted {}, got one{} {}; {}", where(op.name), wanted, number,
                              fmt::vformat(failed, fmt::make_format_args(position)), advice));
}

void put(const OpContext& ctx, GradSink& gx, int i, const Tensor& gradient) {
  gx.set(i, gradient.to(ctx.inputs[static_cast<std::size_t>(i)].grad_dtype).contiguous_copy());
}

Tensor gradient_or_zeros(std::span<const Tensor> gy, std::size_t i, const Tensor& like) {
  if (gy[i].defined()) return gy[i].to(like.dtype()).contiguous_copy();
  return Tensor::zeros(like.shape(), like.dtype(), like.device());
}

LuFactors lu_factors(const Tensor& a) {
  const std::int64_t rows = a.dim(-2), columns = a.dim(-1), k = std::min(rows, columns);
  LuFactors f;
  f.lu = Tensor::empty(a.shape(), a.dtype(), a.device());
  f.pivots = Tensor::empty(batched(a, {k}), DType::i64, a.device());
  f.order = Tensor::empty(batched(a, {rows}), DType::i64, a.device());
  f.parity = Tensor::full(batched(a, {}), 1, a.dtype(), a.device());
  f.info = Tensor::zeros(batched(a, {}), DType::i64, a.device());
  if (a.numel() > 0) {
    kernels(a.device())
        .lu({.a = input(a),
             .lu = output(f.lu),
             .batch = batch_of(a.shape()),
             .rows = rows,
             .columns = columns,
             .pivots = f.pivots.mutable_data<std::int64_t>(),
             .order = f.order.mutable_data<std::int64_t>(),
             .parity = output(f.parity),
             .info = f.info.mutable_data<std::int64_t>()});
  } else if (f.order.numel() > 0) {
    f.order = run<Expand>(std::array{arange(std::int64_t{0}, rows, std::int64_t{1}, DType::i64, a.device())},
                          {.dims = {f.order.shape().dims().begin(), f.order.shape().dims().end()}});
  }
  return f;
}

Tensor inverse_order(const Tensor& order) { return run<Sort>(std::array{order}, {.axis = -1}); }

Tensor lu_solve(const Tensor& lu, const Tensor& order, const Tensor& b, bool transpose) {
  using A = TensorAlgebra;
  if (!transpose)
    return A::triangular(lu, A::triangular(lu, A::rows(b, order), false, false, true), true, false, false);
  const Tensor x = A::triangular(lu, A::triangular(lu, b, true, true, false), false, true, true);
  return A::rows(x, inverse_order(order));
}

Tensor TensorAlgebra::matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return run<Matmul>(std::array{a, b}, {.transpose_a = transpose_a, .transpose_b = transpose_b});
}

Tensor TensorAlgebra::add(const Tensor& a, const Tensor& b) { return run<Add>(std::array{a, b}); }
Tensor TensorAlgebra::sub(const Tensor& a, const Tensor& b) { return run<Sub>(std::array{a, b}); }
Tensor TensorAlgebra::mul(const Tensor& a, const Tensor& b) { return run<Mul>(std::array{a, b}); }
Tensor TensorAlgebra::div(const Tensor& a, const Tensor& b) { return run<Div>(std::array{a, b}); }
Tensor TensorAlgebra::scaled(const Tensor& x, double factor) { return run<MulScalar>(std::array{x}, {factor}); }

Tensor TensorAlgebra::transposed(const Tensor& x) {
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  for (int d = 0; d < x.rank(); ++d) order[static_cast<std::size_t>(d)] = d;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return run<Permute>(std::array{x}, {.order = order});
}

Tensor TensorAlgebra::tril(const Tensor& x, std::int64_t k) {
  return kept(x, [k](std::int64_t beyond) { return beyond <= k; });
}

Tensor TensorAlgebra::triu(const Tensor& x, std::int64_t k) {
  return kept(x, [k](std::int64_t beyond) { return beyond >= k; });
}

Tensor TensorAlgebra::triangular(const Tensor& any_a, const Tensor& any_b, bool upper, bool transpose, bool unit) {
  const Tensor a = any_a.contiguous_copy(), b = any_b.contiguous_copy();
  Tensor x = Tensor::empty(b.shape(), b.dtype(), b.device());
  if (x.numel() == 0) return x;
  kernels(a.device())
      .triangular_solve({.a = input(a),
                         .b = input(b),
                         .x = output(x),
                         .batch = batch_of(a.shape()),
                         .n = a.dim(-1),
                         .columns = b.dim(-1),
                         .upper = upper,
                         .transpose = transpose,
                         .unit = unit});
  return x;
}

Tensor TensorAlgebra::narrow(const Tensor& x, int axis, std::int64_t begin, std::int64_t count) {
  return run<Slice>(std::array{x}, {.axis = axis, .begin = begin, .count = count}).contiguous_copy();
}

Tensor TensorAlgebra::concat(const Tensor& a, const Tensor& b, int axis) {
  return run<Concat>(std::array{a, b}, {.axis = axis});
}

Tensor TensorAlgebra::rows(const Tensor& x, const Tensor& order) {
  if (x.numel() == 0) return x;
  const Tensor one = order.reshape(with_extents(order, order.rank(), {1}));
  const Tensor index = run<Expand>(std::array{one}, {.dims = {x.shape().dims().begin(), x.shape().dims().end()}});
  return run<Gather>(std::array{x, index}, {.axis = -2});
}

Tensor TensorAlgebra::row(const Tensor& x) { return x.reshape(with_extents(x, x.rank() - 1, {1, x.dim(-1)})); }
Tensor TensorAlgebra::column(const Tensor& x) { return x.reshape(with_extents(x, x.rank() - 1, {x.dim(-1), 1})); }

Tensor TensorAlgebra::eye(std::int64_t n, const Tensor& like) { return binade::eye(n, n, like.dtype(), like.device()); }

Tensor TensorAlgebra::matrix_exp(const Tensor& a) {
  OpContext ctx;
  ctx.store_dtype = a.dtype();
  ctx.inputs.resize(1);
  return MatrixExp::forward(ctx, std::span(&a, 1), {}).front();
}

}  // namespace binade::ops
