#include <array>

#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/projections.h"
#include "binade/core/ops/recurrent.h"

namespace binade::derivatives {
namespace {

Variables matmul_gradients(const RecordedCall& call, const ops::Matmul::Params& p);

/// See wide_matmul().
struct WideMatmul {
  using Params = ops::Matmul::Params;
  static constexpr OpInfo info = ops::Matmul::info;
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    ctx.store_dtype = accumulate_dtype(in[0].dtype());
    return ops::Matmul::forward(ctx, in, p);
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    ops::Matmul::backward(ctx, gy, gx, p);
  }
  static Variables derivative(const RecordedCall& call) { return matmul_gradients(call, call.params<WideMatmul>()); }
};

bool same_batch(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank() - 2; ++d)
    if (a[d] != b[d]) return false;
  return true;
}

Variables matmul_gradients(const RecordedCall& call, const ops::Matmul::Params& p) {
  const Variable a = call.input(0, 0), b = call.input(1, 1), &gy = call.gy();
  const auto gradient = [&](int i, const Variable& left, const Variable& right, const ops::Matmul::Params& how) {
    const OpContext::Input& input = call.described(i);
    const bool rounded = is_half(input.grad_dtype) && same_batch(input.shape, gy.shape());
    return sum_to(rounded ? matmul(left, right, how) : wide_matmul(left, right, how), input.shape);
  };
  Variables g(2);
  if (call.needs(0))
    g[0] = p.transpose_a ? gradient(0, b, gy, {p.transpose_b, true}) : gradient(0, gy, b, {false, !p.transpose_b});
  if (call.needs(1))
    g[1] = p.transpose_b ? gradient(1, gy, a, {true, p.transpose_a}) : gradient(1, a, gy, {!p.transpose_a, false});
  return g;
}

/// Returns the pre-activation z of a linear layer: the saved value, with the layer without activation as its history.
Variable pre_activation(const RecordedCall& call) {
  OpContext context = call.context();
  context.activation_derivative = {};
  return RecordedCall::linked(call.saved(2), std::make_shared<detail::OpNode<ops::Linear>>(
                                                 std::move(context), call.node().edges(), 1, ops::Linear::Params{}));
}

/// The gradient of the layer's pre-activation, in the dtype of its products.
Variable pre_activation_gradient(const RecordedCall& call) {
  const DType dtype = call.described(0).dtype;
  const Variable gy = cast(call.gy(), dtype);
  switch (call.params<ops::Linear>().activation) {
    case Activation::kNone: return gy;
    case Activation::kRelu: return relu_gradient(call.saved(2), gy);
    case Activation::kGelu: return cast(wide(gy) * gelu_derivative(pre_activation(call)), dtype);
    case Activation::kGeluTanh: return cast(wide(gy) * gelu_tanh_derivative(pre_activation(call)), dtype);
  }
  return gy;
}

/// Returns x (…, C) as a matrix (rows, C).
Variable rows_of(const Variable& x) {
  std::int64_t rows = 1;  // Shape::rows() is 0 if the rows have no elements
  for (int d = 0; d + 1 < x.value().rank(); ++d) rows *= x.dim(d);
  return shaped(x, {rows, x.shape().cols()});
}

Variables linear_gradients(const RecordedCall& call) {
  if (call.params<ops::Linear>().fp8 && call.described(0).dtype == DType::bf16)
    call.refuse("its operands are rounded to 8 bits; give the layer an override to bf16");
  const Variable gz = rows_of(pre_activation_gradient(call));
  Variables g(3);
  if (call.needs(0)) {
    const Variable w = call.input(1, 1);
    const Variable gx = is_half(call.described(0).grad_dtype) ? matmul(gz, w) : wide_matmul(gz, w);
    g[0] = shaped(gx, call.described(0).shape);
  }
  if (call.needs(1)) g[1] = wide_matmul(gz, rows_of(call.input(0, 0)), {.transpose_a = true});
  if (call.needs(2)) g[2] = sum(gz, {0});
  return g;
}

Variables projections_gradients(const RecordedCall& call) {
  constexpr int kParts = ops::Projections::kParts;
  const Variable x = call.input(0, 0), rows = rows_of(x), gy = rows_of(call.gy());
  Variables g(1 + 2 * kParts);
  std::array<Variable, kParts> weights;
  std::int64_t begin = 0;
  for (int i = 0; i < kParts; ++i) {
    const std::size_t w = static_cast<std::size_t>(1 + i);
    const std::int64_t outputs = call.described(1 + i).shape[0];
    const Variable part = narrow(gy, 1, begin, outputs);
    begin += outputs;
    if (call.needs(0)) weights[static_cast<std::size_t>(i)] = call.input(1 + i, 1 + i);
    if (call.needs(1 + i)) g[w] = wide_matmul(part, rows, {.transpose_a = true});
    if (call.needs(1 + kParts + i)) g[w + kParts] = sum(part, {0});
  }
  if (call.needs(0)) {
    const Variable stacked = concat(weights, 0);
    const Variable gx = is_half(call.described(0).grad_dtype) ? matmul(gy, stacked) : wide_matmul(gy, stacked);
    g[0] = shaped(gx, x.shape());
  }
  return g;
}

constexpr const char* kByPosition =
    "compute the formulas of the cell with functions of variables, position by position";
constexpr Entry kEntries[] = {
    {&ops::Rnn::info, nullptr, kByPosition},
    {&ops::Lstm::info, nullptr, kByPosition},
    {&ops::Gru::info, nullptr, kByPosition},
    {&ops::Matmul::info, [](const RecordedCall& c) { return matmul_gradients(c, c.params<ops::Matmul>()); }},
    {&ops::Linear::info, linear_gradients},
    {&ops::Projections::info, projections_gradients},
};

}  // namespace

Variable wide_matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& p) {
  return apply_one<WideMatmul>(p, {a, b});
}

std::span<const Entry> derivatives_of_products() { return kEntries; }

}  // namespace binade::derivatives
