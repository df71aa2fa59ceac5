#pragma once

#include "binade/autograd/apply.h"
#include "binade/core/ops/op.h"

namespace binade::testing {

/// y = factor x, the op of docs/user-ops.md.
struct Scale {
  struct Params {
    double factor = 1;
  };
  static constexpr OpInfo info{.name = "scale"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    return {map(in[0], ctx.store_dtype, [&](double x) { return p.factor * x; })};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (gx.needs(0)) gx.set(0, map(gy[0], gy[0].dtype(), [&](double g) { return p.factor * g; }));
  }
  template <class F>
  static Tensor map(const Tensor& x, DType dtype, F f) {
    std::vector<double> values = x.to_vector<double>();
    for (double& v : values) v = f(v);
    return Tensor::from(values, x.shape()).to(dtype);
  }
};

/// y = x. Throws std::bad_alloc in one direction (forward or backward).
struct Starved {
  struct Params {
    Direction direction = Direction::kForward;
  };
  static constexpr OpInfo info{.name = "starved"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params& p) {
    if (p.direction == Direction::kForward) throw std::bad_alloc();
    return {in[0]};
  }
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) { throw std::bad_alloc(); }
};

/// y = a b, element by element; saves both and writes gradients through destination().
struct Product {
  struct Params {};
  static constexpr OpInfo info{.name = "product", .precision = PrecisionClass::kWidest};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    ctx.save(in[0]);
    ctx.save(in[1]);
    return {times(in[0], in[1], ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    for (int i = 0; i < 2; ++i) {
      if (!gx.needs(i)) continue;
      Tensor to = gx.destination(i);
      to.copy_from(times(gy[0], ctx.saved(1 - i, info.name), to.dtype()));
    }
  }
  static Tensor times(const Tensor& a, const Tensor& b, DType dtype) {
    std::vector<double> x = a.to_vector<double>();
    const std::vector<double> y = b.to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= y[i];
    return Tensor::from(x, a.shape()).to(dtype);
  }
};

inline Variable scale(const Variable& x, double factor) { return apply_one<Scale>({factor}, {x}); }
inline Variable product(const Variable& a, const Variable& b) { return apply_one<Product>({}, {a, b}); }

inline Variable leaf(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Variable(Tensor::from(values, Shape{n}), true);
}

}  // namespace binade::testing
