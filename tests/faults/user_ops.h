#pragma once

#include "binade.h"

/// Ops that a user's program may define.
namespace binade::faults {

template <class F>
Tensor mapped(const Tensor& x, DType dtype, F&& f) {
  std::vector<double> values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(values[i], static_cast<std::int64_t>(i));
  return Tensor::from(values, x.shape()).to(dtype);
}

/// y = x, gx = gy, but with NaN in one row: an op with an unknown defect.
struct Defect {
  struct Params {
    std::int64_t forward_row = -1, backward_row = -1;
  };
  static constexpr OpInfo info{.name = "defect", .inputs = "x"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    return {broken(in[0], ctx.store_dtype, p.forward_row)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (gx.needs(0)) gx.set(0, broken(gy[0], gy[0].dtype(), p.backward_row));
  }
  static Tensor broken(const Tensor& x, DType dtype, std::int64_t row) {
    const std::int64_t width = x.numel() / x.dim(0);
    return mapped(x, dtype, [&](double v, std::int64_t i) { return i / width == row ? std::nan("") : v; });
  }
};

/// y = x; a gradient beyond `limit` becomes NaN, as when a fused kernel subtracts two infinities.
struct FusedBackward {
  struct Params {
    double limit = 0;
  };
  static constexpr OpInfo info{.name = "fused_backward", .inputs = "x"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    return {in[0].to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (!gx.needs(0)) return;
    gx.set(0, mapped(gy[0], gy[0].dtype(),
                     [&](double g, std::int64_t) { return std::abs(g) > p.limit ? std::nan("") : g; }));
  }
};

/// y = acos(x), gx = -gy / sqrt(1 - x^2), which is infinite at 1; its OpInfo declares the singularity.
struct Acos {
  struct Params {};
  static constexpr OpInfo info{.name = "acos",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .singularities = {{.input = 0, .at = 1, .derivative_only = true}}};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    ctx.save(in[0]);
    return {mapped(in[0], ctx.store_dtype, [](double v, std::int64_t) { return std::acos(v); })};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    const std::vector<double> x = ctx.saved(0, info.name).to_vector<double>();
    gx.set(0, mapped(gy[0], ctx.inputs[0].dtype, [&](double g, std::int64_t i) {
             const double at = x[static_cast<std::size_t>(i)];
             return -g / std::sqrt(1 - at * at);
           }));
  }
};

/// The sum of each sample, accumulated in the input's dtype: (rows, …) -> (rows).
struct OwnSum {
  struct Params {};
  static constexpr OpInfo info{.name = "own_sum", .inputs = "x", .family = OpFamily::kReduction};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    const std::vector<double> x = in[0].to_vector<double>();
    const std::size_t rows = static_cast<std::size_t>(in[0].dim(0)), width = x.size() / rows;
    std::vector<float> sums(rows);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < width; ++i) sums[r] = rounded(sums[r] + x[r * width + i], in[0].dtype());
    return {Tensor::from(sums, {in[0].dim(0)}).to(ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    const OpContext::Input& x = ctx.inputs[0];
    const std::int64_t width = x.shape.numel() / x.shape.dim(0);
    gx.set(0, mapped(Tensor::zeros(x.shape), x.dtype, [&](double, std::int64_t i) { return gy[0].at(i / width); }));
  }
  static float rounded(double x, DType dtype) { return static_cast<float>(Tensor::scalar(x, dtype).item()); }
};

/// Dice loss whose sums are stored in the input's dtype: probabilities and targets of one shape -> a scalar.
struct OwnDice {
  struct Params {};
  static constexpr OpInfo info{
      .name = "own_dice", .inputs = "x, targets", .policy_inputs = 0b1, .family = OpFamily::kReduction};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    const auto [both, all] = sums(in[0], in[1]);
    ctx.save(in[0]);
    ctx.save(in[1]);
    return {Tensor::scalar(1 - 2 * both / all).to(ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    const Tensor &x = ctx.saved(0, info.name), &t = ctx.saved(1, info.name);
    const auto [both, all] = sums(x, t);
    const double n = 2 * both, d = all, g = gy[0].item();
    gx.set(0, mapped(x, x.dtype(), [&](double, std::int64_t i) { return g * (n / d - 2 * t.at(i)) / d; }));
  }
  static std::pair<double, double> sums(const Tensor& x, const Tensor& t) {
    double both = 0, all = 0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      both += x.at(i) * t.at(i);
      all += x.at(i) + t.at(i);
    }
    return {OwnSum::rounded(both, x.dtype()), OwnSum::rounded(all, x.dtype())};
  }
};

/// y = (x - mean) / sqrt(var + eps) of each row, with eps rounded to f16.
struct OwnNorm {
  struct Params {
    double small = 1e-8;
  };
  static constexpr OpInfo info{.name = "own_norm", .inputs = "x", .family = OpFamily::kNorm};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    const double eps = Tensor::scalar(p.small, DType::f16).item();
    const std::int64_t width = in[0].shape().cols();
    std::vector<double> x = in[0].to_vector<double>();
    for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(width)) {
      const std::span row(x.data() + begin, static_cast<std::size_t>(width));
      double mean = 0, var = 0;
      for (const double v : row) mean += v / static_cast<double>(width);
      for (const double v : row) var += (v - mean) * (v - mean) / static_cast<double>(width);
      for (double& v : row) v = (v - mean) / std::sqrt(var + eps);
    }
    return {Tensor::from(x, in[0].shape()).to(ctx.store_dtype)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};

/// y = x, with infinities in every seventh element if `now`: as after bit flips in memory.
struct Flipped {
  struct Params {
    bool now = false;
    bool backward = false;
  };
  static constexpr OpInfo info{.name = "flipped", .inputs = "x"};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    return {struck(in[0], ctx.store_dtype, p.now && !p.backward)};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (gx.needs(0)) gx.set(0, struck(gy[0], gy[0].dtype(), p.now && p.backward));
  }
  static Tensor struck(const Tensor& x, DType dtype, bool now) {
    return mapped(x, dtype, [&](double v, std::int64_t i) {
      return now && i % 7 == 0 ? std::numeric_limits<double>::infinity() : v;
    });
  }
};

}  // namespace binade::faults
