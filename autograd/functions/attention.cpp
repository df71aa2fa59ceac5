#include "binade/autograd/functions/attention.h"

#include <cmath>
#include <vector>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {

Variable attention(const Variable& q, const Variable& k, const Variable& v, const ops::Attention::Params& params,
                   const Variable& mask) {
  return apply_one<ops::Attention>(params, {q, k, v, mask});
}

Tensor rotary_table(std::int64_t count, std::int64_t width, double base, std::int64_t begin, DType dtype,
                    Device device) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  check<ArgumentError>(width > 0 && width % 2 == 0 && width <= kMost && base > 0 && std::isfinite(base),
                       "{}: wanted an even width above 0 and a base above 0, got {} and {}", where("rotary_table"),
                       width, base);
  check<ArgumentError>(count >= 0 && count <= kMost && begin >= 0 && begin <= kMost,
                       "{}: wanted 0 to {} positions from 0 to {} on, got {} from {} on", where("rotary_table"), kMost,
                       kMost, count, begin);
  Tensor table = Tensor::empty({2, count, width / 2}, DType::f64);
  double* cosines = table.mutable_data<double>();
  double* sines = cosines + count * (width / 2);
  for (std::int64_t p = begin; p < begin + count; ++p)
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      *cosines++ = std::cos(angle);
      *sines++ = std::sin(angle);
    }
  return table.to(dtype).to(device);
}

Variable rotary(const Variable& x, const Variable& table, RotaryPairs pairs) {
  constexpr const char* kName = "rotary";
  check<ShapeError>(x.value().rank() == 4 && table.value().rank() == 3 && table.dim(0) == 2 &&
                        table.dim(1) == x.dim(1) && table.dim(2) > 0 && table.dim(2) <= x.dim(3) / 2,
                    "{}: wanted x (B, T, H, D) and a table (2, T, R / 2) with R <= D, got {} and {}", where(kName),
                    x.shape(), table.shape());
  check<DTypeError>(is_floating(x.dtype()) && is_floating(table.dtype()),
                    "{}: wanted x and a table of floating dtypes, got {} and {}", where(kName), name_of(x.dtype()),
                    name_of(table.dtype()));
  const std::int64_t tokens = x.dim(1), heads = x.dim(2), depth = x.dim(3), half = table.dim(2), width = 2 * half;
  // A pair (a, b) is an axis of extent 2: y = (a, b) cos + (b, a) (-sin, sin).
  const bool halves = pairs == RotaryPairs::kHalves;
  const int axis = halves ? 3 : 4;
  const auto per_pair = [&](const Variable& angles) {
    return unsqueeze(reshape(angles, {tokens, 1, half}), halves ? 2 : 3);
  };
  const Variable cosines = per_pair(select(table, 0, 0)), sines = per_pair(select(table, 0, 1));
  const Variable turned = depth == width ? x : narrow(x, 3, 0, width);
  const Variable two = reshape(turned, halves ? std::vector{x.dim(0), tokens, heads, std::int64_t{2}, half}
                                              : std::vector{x.dim(0), tokens, heads, half, std::int64_t{2}});
  const Variable rotated = two * cosines + flip(two, {axis}) * concat({-sines, sines}, axis - 1);
  const Variable y = cast(reshape(rotated, {x.dim(0), tokens, heads, width}), x.dtype());
  return depth == width ? y : concat({y, narrow(x, 3, width, depth - width)}, 3);
}

}  // namespace binade
