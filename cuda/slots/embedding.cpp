#include "binade/core/ops/embedding.h"

#include "binade/core/step_context.h"
#include "binade/cuda/faults.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"
#include "binade/cuda/slots/walk.h"

namespace binade::cuda {
namespace {

void rows(const Tensor& weight, const Tensor& indices, Tensor& y) {
  const std::uint64_t number = number_call([op = where(ops::Embedding::info.name).to_string(), shape = indices.shape(),
                                            rows = weight.dim(0)](std::int64_t position, std::int64_t index) {
    return ops::bad_index_text(op, shape, position, index, rows);
  });
  const EmbeddingRowsCall call{.indices = indices.data<std::int64_t>(),
                               .count = indices.numel(),
                               .rows = weight.dim(0),
                               .cols = weight.dim(1),
                               .pitch = weight.pitch(),
                               .weight = source(weight),
                               .y = target(y),
                               .number = number};
  run(Call::kEmbeddingRows, call, ops::Embedding::info.name);
}

void gradient(const Tensor& indices, const Tensor& gy, Tensor& gw, bool accumulate) {
  if (!accumulate) backend_of(gw.device()).fill_zero(gw.mutable_raw(), gw.bytes(), Stream{gw.device()});
  const EmbeddingGradientCall call{.indices = indices.data<std::int64_t>(),
                                   .count = indices.numel(),
                                   .rows = gw.dim(0),
                                   .cols = gw.dim(1),
                                   .gy = source(gy),
                                   .gw = target(gw)};
  run(Call::kEmbeddingGradient, call, ops::Embedding::info.name);
}

}  // namespace

void register_embedding() { ops::Embedding::kernels.fill(DeviceType::kCuda, {&rows, &gradient}); }

}  // namespace binade::cuda
