#include "binade/core/ops/products.h"

#include "binade/core/step_context.h"

namespace binade::ops {

void check_linear(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias, std::string_view w_name,
                  std::string_view bias_name) {
  check<ShapeError>(x.rank() >= 1 && w.rank() == 2 && x.dim(-1) == w.dim(1),
                    "{}: wanted x (..., in) and {} (out, in), got {} and {}", where(op), w_name, x.shape(), w.shape());
  check<DTypeError>(x.dtype() == w.dtype() && is_floating(x.dtype()),
                    "{}: wanted x and {} of one floating dtype, got {} and {}; convert x with to(DType::f32)",
                    where(op), w_name, name_of(x.dtype()), name_of(w.dtype()));
  if (!bias.defined()) return;
  check<ShapeError>(bias.shape() == Shape{w.dim(0)}, "{}: wanted {} ({}), got {}", where(op), bias_name, w.dim(0),
                    bias.shape());
  check<DTypeError>(
      is_floating(bias.dtype()) && (bias.dtype() == DType::f64) == (x.dtype() == DType::f64),
      "{}: wanted f64 in all of x, w and bias or in none of them, got a bias of {} and products of {}; convert x "
      "with to(DType::f32), or the module's parameters to f64",
      where(op), name_of(bias.dtype()), name_of(x.dtype()));
}

GemmArgs forward_product(const OpContext& ctx, const Tensor& x, const void* w, std::int64_t w_row, Tensor& y) {
  GemmArgs g{.m = y.shape().rows(), .n = y.dim(-1), .k = x.dim(-1), .in = x.dtype(), .out = y.dtype()};
  g.tf32 = ctx.tf32;
  g.a = x.raw();
  g.a_row = x.pitch();
  g.b = w;
  g.b_row = 1;
  g.b_col = w_row;
  g.c = y.mutable_raw();
  g.c_row = g.n;
  return g;
}

GemmArgs input_gradient_product(const OpContext& ctx, const Tensor& gz, const void* w, std::int64_t w_row, Tensor& gx) {
  // The number of rows is taken from gx: if the layer has no outputs, gz is empty and gx must become zeros.
  GemmArgs g{.m = gx.shape().rows(), .n = gx.dim(-1), .k = gz.dim(-1), .in = gz.dtype(), .out = gx.dtype()};
  g.tf32 = ctx.tf32;
  g.a = gz.raw();
  g.a_row = g.k;
  g.b = w;
  g.b_row = w_row;
  g.c = gx.mutable_raw();
  g.c_row = g.n;
  return g;
}

GemmArgs weight_gradient_product(const OpContext& ctx, const Tensor& gz, const Tensor& x, DType out, void* gw) {
  GemmArgs g{.m = gz.dim(-1), .n = x.dim(-1), .k = gz.shape().rows(), .in = x.dtype(), .out = out};
  g.tf32 = ctx.tf32;
  g.a = gz.raw();
  g.a_row = 1;
  g.a_col = g.m;
  g.b = x.raw();
  g.b_row = x.pitch();
  g.c = gw;
  g.c_row = g.n;
  return g;
}

}  // namespace binade::ops
