#include "binade/core/ops/matmul.h"

#include "binade/core/ops/products.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "matmul";

/// A tensor as a batch of matrices: the last two dimensions, optionally transposed, are rows and columns; the
/// dimensions before them are the batch. Strides are in elements.
struct Matrices {
  Tensor tensor;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 0;
  std::int64_t batch_stride = 0;
  Shape batch;

  Matrices(const Tensor& x, bool transpose) : tensor(x) {
    rows = x.dim(-2);
    columns = x.dim(-1);
    row_stride = x.pitch();
    column_stride = 1;
    batch_stride = rows * x.pitch();
    batch = Shape(x.shape().dims().first(static_cast<std::size_t>(x.rank() - 2)));
    if (transpose) *this = transposed();
  }
  Matrices transposed() const {
    Matrices t = *this;
    std::swap(t.rows, t.columns);
    std::swap(t.row_stride, t.column_stride);
    return t;
  }
};

/// Returns, for each index of the batch shape `whole`, the offset in elements of the matrix of `part` that broadcasts
/// to it. `stride`: distance in elements between neighboring matrices of `part`.
std::vector<std::int64_t> broadcast_offsets(const Shape& whole, const Shape& part, std::int64_t stride) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(whole.numel()));
  for (std::int64_t i = 0; i < whole.numel(); ++i) {
    std::int64_t rest = i, index = 0, scale = 1;
    for (int d = 1; d <= whole.rank(); ++d) {
      const std::int64_t coordinate = rest % whole[-d];
      rest /= whole[-d];
      if (d <= part.rank()) {
        if (part[-d] != 1) index += coordinate * scale;
        scale *= part[-d];
      }
    }
    offsets[static_cast<std::size_t>(i)] = index * stride;
  }
  return offsets;
}

/// True if one product computes a b for all batches: they share one matrix b, and the rows of a are evenly spaced over
/// all batches.
bool is_one_product(const Matrices& a, const Matrices& b) { return a.column_stride == 1 && b.batch.numel() == 1; }

/// Describes c = left right for one matrix each. The rows of c are `right.columns` elements apart.
GemmArgs product(const OpContext& ctx, const Matrices& left, const Matrices& right, Tensor& c) {
  GemmArgs g;
  g.tf32 = ctx.tf32;
  g.m = left.rows;
  g.n = right.columns;
  g.k = left.columns;
  g.in = left.tensor.dtype();
  g.out = c.dtype();
  g.a = left.tensor.raw();
  g.a_row = left.row_stride;
  g.a_col = left.column_stride;
  g.b = right.tensor.raw();
  g.b_row = right.row_stride;
  g.b_col = right.column_stride;
  g.c = c.mutable_raw();
  g.c_row = right.columns;
  return g;
}

/// Computes y = a b for every index of `batch` or, if `adds`, y += a b.
void multiply(const OpContext& ctx, const Matrices& a, const Matrices& b, const Shape& batch, Tensor& y,
              bool adds = false) {
  if (y.numel() == 0) return;
  GemmArgs g = product(ctx, a, b, y);
  g.accumulate = adds;
  if (is_one_product(a, b)) {
    g.m *= batch.numel();
    return kernels(y.device()).gemm(g);
  }
  const std::vector<std::int64_t> a_offsets = broadcast_offsets(batch, a.batch, a.batch_stride);
  const std::vector<std::int64_t> b_offsets = broadcast_offsets(batch, b.batch, b.batch_stride);
  const std::vector<std::int64_t> y_offsets = broadcast_offsets(batch, batch, g.m * g.n);
  g.batch = batch.numel();
  g.a_offsets = a_offsets.data();
  g.b_offsets = b_offsets.data();
  g.c_offsets = y_offsets.data();
  kernels(y.device()).gemm(g);
}

/// Computes the gradient of an input whose batch shape is `own`: for each of its matrices, the sum of the products left
/// right over the batches of y to which the matrix was broadcast. `batch`: batch shape of y, to which those of left and
/// right broadcast. If `adds`, adds to the values in `gradient`; this requires one product per matrix.
void accumulate_gradient(const OpContext& ctx, const Matrices& left, const Matrices& right, const Shape& batch,
                         const Shape& own, Tensor gradient, bool adds) {
  // An empty gradient can have more batches than fit in the lists below.
  if (gradient.numel() == 0) return;
  if (left.columns == 0) {  // the sums have no terms
    if (!adds) gradient.fill(0);
    return;
  }
  const std::int64_t size = left.rows * right.columns;
  Tensor sum = is_half(gradient.dtype()) && own.numel() != batch.numel()
                   ? Tensor::empty(gradient.shape(), DType::f32, gradient.device())
                   : gradient;
  const std::vector<std::int64_t> left_offsets = broadcast_offsets(batch, left.batch, left.batch_stride);
  const std::vector<std::int64_t> right_offsets = broadcast_offsets(batch, right.batch, right.batch_stride);
  const std::vector<std::int64_t> targets = broadcast_offsets(batch, own, size);

  // Round r adds the r-th product to each matrix of the gradient, so that the products of one round write to different
  // matrices and can be computed in one batch.
  std::vector<std::vector<std::size_t>> contributions(static_cast<std::size_t>(own.numel()));
  for (std::size_t i = 0; i < targets.size(); ++i)
    contributions[static_cast<std::size_t>(targets[i] / size)].push_back(i);
  if (targets.empty()) {
    if (!adds) sum.fill(0);
    return;
  }
  const std::size_t rounds = contributions.front().size();
  std::vector<std::int64_t> a_offsets(contributions.size()), b_offsets(contributions.size()),
      c_offsets(contributions.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contributions.size(); ++i) {
      const std::size_t from = contributions[i][round];
      a_offsets[i] = left_offsets[from];
      b_offsets[i] = right_offsets[from];
      c_offsets[i] = static_cast<std::int64_t>(i) * size;
    }
    GemmArgs g = product(ctx, left, right, sum);
    g.accumulate = adds || round > 0;
    g.batch = own.numel();
    g.a_offsets = a_offsets.data();
    g.b_offsets = b_offsets.data();
    g.c_offsets = c_offsets.data();
    kernels(sum.device()).gemm(g);
  }
  if (!sum.shares_storage_with(gradient)) gradient.copy_from(sum);
}

/// Computes the gradient of b if is_one_product(a, b): one product that sums over the rows of all batches.
void one_product_gradient(const OpContext& ctx, const Matrices& left, const Matrices& right, std::int64_t batches,
                          Tensor& gradient, bool adds) {
  GemmArgs g = product(ctx, left, right, gradient);
  g.accumulate = adds;
  g.k *= batches;
  kernels(gradient.device()).gemm(g);
}

/// Returns where to store the gradient of input i. Only if each of its matrices is a single product (`one`) may it be
/// added to existing values.
GradSink::Sum sum_of_products(const OpContext& ctx, GradSink& gx, int i, bool one) {
  return one ? gradient_of_product(ctx, gx, i) : GradSink::Sum{gx.destination(i), false};
}

}  // namespace

Tensors Matmul::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ShapeError>(in[0].rank() >= 2 && in[1].rank() >= 2,
                    "{}: wanted matrices (at least 2 dimensions), got {} and {}; reshape a vector to one row or column",
                    where(kName), in[0].shape(), in[1].shape());
  check<DTypeError>(in[0].dtype() == in[1].dtype() && is_floating(in[0].dtype()),
                    "{}: wanted two inputs of one floating dtype, got {} and {}", where(kName), name_of(in[0].dtype()),
                    name_of(in[1].dtype()));
  const Matrices a(in[0], p.transpose_a), b(in[1], p.transpose_b);
  check<ShapeError>(a.columns == b.rows, "{}: wanted op(a) (..., M, K) and op(b) (..., K, N), got {}{} and {}{}",
                    where(kName), in[0].shape(), p.transpose_a ? " transposed" : "", in[1].shape(),
                    p.transpose_b ? " transposed" : "");
  const Shape batch = broadcast(a.batch, b.batch, kName);
  std::vector<std::int64_t> dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(a.rows);
  dims.push_back(b.columns);
  Tensor y = Tensor::empty(Shape(dims), ctx.store_dtype, in[0].device());
  multiply(ctx, a, b, batch, y);
  ctx.save(in[0]);
  ctx.save(in[1]);
  return {y};
}

void Matmul::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Matrices a(ctx.saved(0, kName), p.transpose_a), b(ctx.saved(1, kName), p.transpose_b);
  const Matrices g(gy[0].to(a.tensor.dtype()), false);
  const Shape batch = broadcast(a.batch, b.batch, kName);
  if (gx.needs(0)) {
    auto [ga, adds] = sum_of_products(ctx, gx, 0, a.batch.numel() == batch.numel());
    if (p.transpose_a)
      accumulate_gradient(ctx, b, g.transposed(), batch, a.batch, ga, adds);
    else if (is_one_product(g, b) && a.batch.numel() == batch.numel())
      multiply(ctx, g, b.transposed(), batch, ga, adds);
    else
      accumulate_gradient(ctx, g, b.transposed(), batch, a.batch, ga, adds);
  }
  if (gx.needs(1)) {
    const bool fold = is_one_product(a, b) && a.batch.numel() == batch.numel();
    auto [gb, adds] = sum_of_products(ctx, gx, 1, fold || b.batch.numel() == batch.numel());
    const Matrices left = p.transpose_b ? g.transposed() : a.transposed();
    const Matrices right = p.transpose_b ? a : g;
    if (fold)
      one_product_gradient(ctx, left, right, batch.numel(), gb, adds);
    else
      accumulate_gradient(ctx, left, right, batch, b.batch, gb, adds);
  }
}

}  // namespace binade::ops
