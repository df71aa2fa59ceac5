#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/nn/linear.h"

/// Small models with one fault each that the pre-flight must find, and similar models without a fault.
namespace binade::amp::preflight_cases {

/// A layer x (8, 6) -> features (8, 16); the cases compute their losses from its result.
struct Features : nn::Module {
  nn::Linear body{{.in = 6, .out = 16}};
  nn::Parameter scale{Tensor::full({1}, 1.0)};
  void visit(nn::Visitor& v) override {
    v("body", body);
    v("scale", scale);
  }
  Variable forward(const Variable& x) override { return body(x); }
};

/// A user's sum that accumulates in f16, as some Dice losses do.
struct HalfSum {
  struct Params {};
  static constexpr OpInfo info{
      .name = "half_sum", .numerics = {.accumulate = DType::f16}, .family = OpFamily::kReduction};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) {
    float16 sum = float16::from_float(0);
    for (std::int64_t i = 0; i < in[0].numel(); ++i)
      sum = float16::from_float(sum.to_float() + static_cast<float>(in[0].at(i)));
    return {Tensor::scalar(sum.to_float())};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.destination(0).fill(gy[0].item());
  }
};

/// y = 1 / (x - 1): a singularity that is not at 0.
struct Shifted {
  struct Params {};
  static constexpr OpInfo info{.name = "shifted", .inputs = "x", .singularities = {{.input = 0, .at = 1}}};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    Tensor y = in[0].to(DType::f32).clone();
    for (std::int64_t i = 0; i < y.numel(); ++i) y.mutable_data<float>()[i] = 1 / (y.mutable_data<float>()[i] - 1);
    ctx.save(y);
    return {y.to(ctx.store_dtype)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    Tensor g = ctx.saved(0, info.name).clone();
    for (std::int64_t i = 0; i < g.numel(); ++i)
      g.mutable_data<float>()[i] *= -g.mutable_data<float>()[i] * static_cast<float>(gy[0].at(i));
    gx.destination(0).copy_from(g);
  }
};

/// A variance as mean(x^2) - mean(x)^2, which rounding can make negative.
inline Variable one_pass(const Variable& x) { return mean(square(x), {-1}, true) - square(mean(x, {-1}, true)); }

template <class Optimizer, class Options>
std::function<std::unique_ptr<optim::Optimizer>(Features&)> with(const Options& options) {
  return
      [options](Features& m) -> std::unique_ptr<optim::Optimizer> { return std::make_unique<Optimizer>(m, options); };
}

struct Case {
  std::string name{};
  std::string rule{};  ///< the rule that must report the case; empty: no rule may
  std::string op{};    ///< the op that the finding must name
  std::function<Variable(Features&)> loss{};
  TrainerOptions options{};
  std::function<std::unique_ptr<optim::Optimizer>(Features&)> optimizer{};  ///< makes the optimizer; empty: AdamW
};

/// Returns the cases with one fault each.
std::vector<Case> planted();
/// Returns similar cases without a fault.
std::vector<Case> look_alikes();

/// Runs the pre-flight of a case in a Runtime of its own; no other Runtime may exist.
PreflightReport preflight(const Case& c);

}  // namespace binade::amp::preflight_cases
