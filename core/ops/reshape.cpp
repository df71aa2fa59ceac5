#include "binade/core/ops/reshape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

Shape resolve(const Tensor& x, std::vector<std::int64_t> dims) {
  const auto bad = [&] {
    return ShapeError(fmt::format("{}: wanted extents for the {} elements of {} (one may be -1), got ({})",
                                  where(Reshape::info.name), x.numel(), x.shape(), fmt::join(dims, ", ")));
  };
  std::int64_t known = 1;
  auto open = dims.end();
  for (auto d = dims.begin(); d != dims.end(); ++d) {
    if (*d == -1 && open == dims.end())
      open = d;
    else if (*d < 0 || (*d > 0 && known > std::numeric_limits<std::int64_t>::max() / *d))
      throw bad();
    else
      known *= *d;
  }
  if (open != dims.end()) {
    if (known == 0 || x.numel() % known != 0) throw bad();
    *open = x.numel() / known;
  }
  const Shape shape(dims);
  if (shape.numel() != x.numel()) throw bad();
  return shape;
}

}  // namespace

Tensors Reshape::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  return {in[0].contiguous_copy().reshape(resolve(in[0], p.dims))};
}

void Reshape::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (gx.needs(0)) gx.set(0, gy[0].reshape(ctx.inputs[0].shape).to(ctx.inputs[0].grad_dtype));
}

}  // namespace binade::ops
