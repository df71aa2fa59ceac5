#include "core/ops/embedding.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/kernels/dispatch.h"
#include "core/ops/input_gradient.h"
#include "core/parallel.h"
#include "core/step_context.h"

namespace binade::ops {
namespace {

Tensor checked_indices(const Tensor& indices, std::int64_t rows) {
  check<DTypeError>(indices.dtype() == DType::i64 || indices.dtype() == DType::i32,
                    "{}: wanted indices of i64 or i32, got {}", where(Embedding::info.name), name_of(indices.dtype()));
  const Tensor wide = indices.to(DType::i64).contiguous_copy();
  const std::int64_t* index = wide.data<std::int64_t>();
  for (std::int64_t i = 0; i < wide.numel(); ++i)
    if (index[i] < 0 || index[i] >= rows) [[unlikely]]
      throw DataError(
          fmt::format("{}: wanted indices in [0, {}), got {} at position {}; check the data or the vocabulary",
                      where(Embedding::info.name), rows, index[i], indices.shape().position(i)));
  return wide;
}

Shape output_shape(const Shape& indices, std::int64_t cols) {
  std::vector<std::int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.push_back(cols);
  return Shape(dims);
}

/// Positions sorted by index, equal indices in position order: who looks up which row.
struct Lookups {
  std::vector<std::int64_t> row, begin, tokens;
};

Lookups group(const Tensor& indices, std::int64_t rows) {
  const std::int64_t* index = indices.data<std::int64_t>();
  std::vector<std::int64_t> start(static_cast<std::size_t>(rows) + 1, 0);
  for (std::int64_t i = 0; i < indices.numel(); ++i) ++start[static_cast<std::size_t>(index[i]) + 1];
  Lookups result;
  for (std::int64_t v = 0; v < rows; ++v) {
    const auto at = static_cast<std::size_t>(v);
    if (start[at + 1] > 0) {
      result.row.push_back(v);
      result.begin.push_back(start[at]);
    }
    start[at + 1] += start[at];
  }
  result.begin.push_back(indices.numel());
  result.tokens.resize(static_cast<std::size_t>(indices.numel()));
  for (std::int64_t i = 0; i < indices.numel(); ++i)
    result.tokens[static_cast<std::size_t>(start[static_cast<std::size_t>(index[i])]++)] = i;
  return result;
}

}  // namespace

Tensors Embedding::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  const Tensor& weight = in[0];
  check<ShapeError>(weight.rank() == 2, "{}: wanted a weight of shape (V, D), got {}", where(info.name),
                    weight.shape());
  check<DTypeError>(is_floating(weight.dtype()), "{}: wanted a floating weight, got {}", where(info.name),
                    name_of(weight.dtype()));
  const Tensor indices = checked_indices(in[1], weight.dim(0));
  const std::int64_t cols = weight.dim(1);
  Tensor y = Tensor::empty(output_shape(in[1].shape(), cols), weight.dtype(), weight.device());
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
  ctx.save(indices);
  return {y.to(ctx.store_dtype)};
}

void Embedding::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& indices = ctx.saved(0, info.name);
  const Shape& shape = ctx.inputs[0].shape;
  InputGradient gw(gx, 0, accumulate_dtype(gy[0].dtype()));
  if (shape.numel() == 0) return gw.finish();
  const Lookups lookups = group(indices, shape[0]);
  backend_of(gy[0].device()).fill_zero(gw.raw(), gw.tensor().bytes(), Stream{gy[0].device()});
  cpu::EmbeddingGradient a{.gy_dtype = gy[0].dtype(), .gw_dtype = gw.tensor().dtype()};
  a.rows = static_cast<std::int64_t>(lookups.row.size());
  a.cols = shape[1];
  a.row = lookups.row.data();
  a.begin = lookups.begin.data();
  a.tokens = lookups.tokens.data();
  a.gy = gy[0].raw();
  a.gw = gw.raw();
  embedding_slot().on(gy[0].device(), info.name).gradient(a);
  gw.finish();
}

KernelSlot<cpu::EmbeddingKernels>& embedding_slot() {
  static KernelSlot<cpu::EmbeddingKernels> slot;
  return slot;
}

void register_embedding_cpu() {
  embedding_slot().fill(DeviceType::kCpu, {[](const cpu::EmbeddingGradient& a) {
                          check<DTypeError>(a.gw_dtype == accumulate_dtype(a.gy_dtype),
                                            "embedding: a gradient of {} is summed in {}, not in {}",
                                            name_of(a.gy_dtype), name_of(accumulate_dtype(a.gy_dtype)),
                                            name_of(a.gw_dtype));
                          cpu::kernels().embedding.gradient(a);
                        }});
}

}  // namespace binade::ops
