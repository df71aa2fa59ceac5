#include "binade/core/ops/embedding.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/parallel.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

void check_indices(const Tensor& indices, std::int64_t rows) {
  const std::int64_t* index = indices.data<std::int64_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i)
    if (index[i] < 0 || index[i] >= rows) [[unlikely]]
      throw DataError(bad_index_text(where(Embedding::info.name).to_string(), indices.shape(), i, index[i], rows));
}

void copy_rows(const Tensor& weight, const Tensor& indices, Tensor& y) {
  check_indices(indices, weight.dim(0));
  const std::int64_t cols = weight.dim(1);
  const std::size_t size = size_of(weight.dtype());
  const std::size_t row_bytes = static_cast<std::size_t>(cols) * size,
                    pitch_bytes = static_cast<std::size_t>(weight.pitch()) * size;
  const auto* from = static_cast<const std::byte*>(weight.raw());
  auto* to = static_cast<std::byte*>(y.mutable_raw());
  const std::int64_t* index = indices.data<std::int64_t>();
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, cols));
  parallel_for(y.numel() == 0 ? 0 : indices.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(to + static_cast<std::size_t>(i) * row_bytes, from + static_cast<std::size_t>(index[i]) * pitch_bytes,
                  row_bytes);
  });
}

Shape output_shape(const Shape& indices, std::int64_t cols) {
  std::vector<std::int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.push_back(cols);
  return Shape(dims);
}

/// Positions sorted by index, equal indices in position order: who looks up which row, in tokens from begin[row] on.
struct Lookups {
  std::vector<std::int64_t> begin, tokens;
};

Lookups group(const Tensor& indices, std::int64_t rows) {
  const std::int64_t* index = indices.data<std::int64_t>();
  Lookups result{std::vector<std::int64_t>(static_cast<std::size_t>(rows) + 2, 0),
                 std::vector<std::int64_t>(static_cast<std::size_t>(indices.numel()))};
  // Where the row's next token goes, which in the end is where the row after it begins.
  std::int64_t* next = result.begin.data() + 1;
  for (std::int64_t i = 0; i < indices.numel(); ++i) ++next[index[i] + 1];
  for (std::int64_t row = 0; row < rows; ++row) next[row + 1] += next[row];
  for (std::int64_t i = 0; i < indices.numel(); ++i) result.tokens[static_cast<std::size_t>(next[index[i]]++)] = i;
  return result;
}

void add_rows(const Tensor& indices, const Tensor& gy, Tensor& gw, bool accumulate) {
  check<DTypeError>(gw.dtype() == accumulate_dtype(gy.dtype()),
                    "embedding: a gradient of {} is summed in {}, not in {}", name_of(gy.dtype()),
                    name_of(accumulate_dtype(gy.dtype())), name_of(gw.dtype()));
  const Lookups lookups = group(indices, gw.dim(0));
  cpu::kernels().embedding.gradient({.gy_dtype = gy.dtype(),
                                     .gw_dtype = gw.dtype(),
                                     .rows = gw.dim(0),
                                     .cols = gw.dim(1),
                                     .begin = lookups.begin.data(),
                                     .tokens = lookups.tokens.data(),
                                     .gy = gy.raw(),
                                     .gw = gw.mutable_raw(),
                                     .accumulate = accumulate});
}

}  // namespace

std::string bad_index_text(std::string_view op, const Shape& indices, std::int64_t position, std::int64_t index,
                           std::int64_t rows) {
  return fmt::format("{}: wanted indices in [0, {}), got {} at position {}; check the data or the vocabulary", op, rows,
                     index, indices.position(position));
}

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
  kernels.on(weight.device(), info.name).rows(weight, indices, y);
  ctx.save(indices);
  return {y.to(ctx.store_dtype)};
}

void Embedding::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& indices = ctx.saved(0, info.name);
  const Shape& shape = ctx.inputs[0].shape;
  GradientSum gw(gx, 0, accumulate_dtype(gy[0].dtype()));
  if (shape.numel() == 0) return gw.finish();
  kernels.on(gy[0].device(), info.name).gradient(indices, gy[0], gw.tensor(), gw.holds());
  gw.finish();
}

void register_embedding_cpu() { Embedding::kernels.fill(DeviceType::kCpu, {&copy_rows, &add_rows}); }

}  // namespace binade::ops
