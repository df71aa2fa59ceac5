#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/core/ops/fft.h"
#include "binade/core/ops/sampling.h"

namespace binade::derivatives {
namespace {

Variables fft_gradient(const RecordedCall& call) {
  const auto& p = call.params<ops::Fft>();
  const OpContext::Input& x = call.described(0);
  return {apply_one<ops::Fft>(p.adjoint(x.shape[ops::Fft::checked(x.shape, x.dtype, p)]), {call.gy()})};
}

Variable gathered(const Variable& x, const Variable& weight, const Tensor& index) {
  return apply_one<ops::WeightedGather>({}, {x, weight, index});
}
Variable scattered(const Variable& x, const Variable& weight, const Tensor& index, std::int64_t rows) {
  return apply_one<ops::WeightedScatter>({.rows = rows}, {x, weight, index});
}
Variable dots(const Variable& x, const Variable& point, const Tensor& index) {
  return apply_one<ops::WeightedDot>({}, {x, point, index});
}

Variables gather_gradients(const RecordedCall& call) {
  const Variable x = call.input(0, 0), weight = call.input(1, 1);
  const Tensor& index = call.saved(2);
  Variables g(3);
  if (call.needs(0)) g[0] = scattered(call.gy(), weight, index, x.dim(1));
  if (call.needs(1)) g[1] = dots(x, call.gy(), index);
  return g;
}

Variables scatter_gradients(const RecordedCall& call) {
  const Variable x = call.input(0, 0), weight = call.input(1, 1);
  const Tensor& index = call.saved(2);
  Variables g(3);
  if (call.needs(0)) g[0] = gathered(call.gy(), weight, index);
  if (call.needs(1)) g[1] = dots(call.gy(), x, index);
  return g;
}

Variables dot_gradients(const RecordedCall& call) {
  const Variable x = call.input(0, 0), point = call.input(1, 1);
  const Tensor& index = call.saved(2);
  Variables g(3);
  if (call.needs(0)) g[0] = scattered(point, call.gy(), index, x.dim(1));
  if (call.needs(1)) g[1] = gathered(x, call.gy(), index);
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::Fft::info, fft_gradient},
    {&ops::WeightedGather::info, gather_gradients},
    {&ops::WeightedScatter::info, scatter_gradients},
    {&ops::WeightedDot::info, dot_gradients},
};

}  // namespace

std::span<const Entry> derivatives_of_signal_ops() { return kEntries; }

}  // namespace binade::derivatives
