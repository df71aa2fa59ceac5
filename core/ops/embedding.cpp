#include "binade/core/ops/embedding.h"

#include <vector>

#include "binade/core/faults.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

Shape output_shape(const Shape& indices, std::int64_t cols) {
  std::vector<std::int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.push_back(cols);
  return Shape(dims);
}

}  // namespace

Tensors Embedding::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  const Tensor& weight = in[0];
  check<ShapeError>(weight.rank() == 2, "{}: wanted a weight of shape (V, D), got {}", where(info.name),
                    weight.shape());
  check<DTypeError>(is_floating(weight.dtype()), "{}: wanted a floating weight, got {}", where(info.name),
                    name_of(weight.dtype()));
  check<DTypeError>(in[1].dtype() == DType::i64 || in[1].dtype() == DType::i32,
                    "{}: wanted indices of i64 or i32, got {}", where(info.name), name_of(in[1].dtype()));
  const Tensor indices = in[1].to(DType::i64).contiguous_copy();
  Tensor y = Tensor::empty(output_shape(indices.shape(), weight.dim(1)), weight.dtype(), weight.device());
  const std::uint64_t call = register_call([op = where(info.name).to_string(), shape = indices.shape(),
                                            rows = weight.dim(0)](std::int64_t position, std::int64_t index) {
    return fmt::format("{}: wanted indices in [0, {}), got {} at position {}; check the data or the vocabulary", op,
                       rows, index, shape.position(position));
  });
  kernels(weight.device())
      .embedding_rows({.indices = indices.data<std::int64_t>(),
                       .count = indices.numel(),
                       .rows = weight.dim(0),
                       .cols = weight.dim(1),
                       .pitch = weight.pitch(),
                       .weight = input(weight),
                       .y = output(y),
                       .call = call});
  ctx.save(indices);
  return {y.to(ctx.store_dtype)};
}

void Embedding::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& indices = ctx.saved(0, info.name);
  const Shape& shape = ctx.inputs[0].shape;
  GradientSum gw(gx, 0, accumulate_dtype(gy[0].dtype()));
  if (shape.numel() == 0) return gw.finish();
  kernels(gy[0].device())
      .embedding_gradient({.indices = indices.data<std::int64_t>(),
                           .count = indices.numel(),
                           .rows = shape[0],
                           .cols = shape[1],
                           .gy = input(gy[0]),
                           .gw = output(gw.tensor()),
                           .accumulate = gw.holds()});
  gw.finish();
}

}  // namespace binade::ops
