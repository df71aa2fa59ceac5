#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/core/step_context.h"
#include "binade/nn/linear.h"
#include "binade/optim/adam.h"
#include "binade/optim/sgd.h"

/// A two-layer network with a running statistic, a loss and faults that tests can plant, for tests of training steps.
namespace binade::amp::toy {

/// mean((y - target)^2), f32.
struct SquaredError {
  struct Params {};
  static constexpr OpInfo info{.name = "squared_error", .precision = PrecisionClass::kFull, .policy_inputs = 1};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    ctx.save(in[0]);
    ctx.save(in[1]);
    double sum = 0;
    for (std::int64_t i = 0; i < in[0].numel(); ++i) sum += std::pow(in[0].at(i) - in[1].at(i), 2);
    return {Tensor::scalar(sum / static_cast<double>(in[0].numel()))};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (!gx.needs(0)) return;
    const Tensor &y = ctx.saved(0, info.name), &target = ctx.saved(1, info.name);
    std::vector<float> g(static_cast<std::size_t>(y.numel()));
    for (std::size_t i = 0; i < g.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      g[i] = static_cast<float>(2 * (y.at(at) - target.at(at)) / static_cast<double>(g.size()) * gy[0].item());
    }
    gx.destination(0).copy_from(Tensor::from(g, y.shape()));
  }
};

/// y = x. Backward turns gradients above `limit` into NaN, as a fused kernel may do with an overflow (inf - inf).
struct Fragile {
  struct Params {
    double limit = std::numeric_limits<double>::infinity();
  };
  static constexpr OpInfo info{.name = "fragile"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) { return {in[0]}; }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (!gx.needs(0)) return;
    std::vector<float> g = gy[0].to_vector<float>();
    for (float& x : g) x = std::abs(x) > p.limit ? std::nanf("") : x;
    gx.destination(0).copy_from(Tensor::from(g, gy[0].shape()));
  }
};

inline Tensor random(const Shape& shape, std::uint32_t index, float spread = 1) {
  const RandomStream stream{11, RngPurpose::kData, 0, 0, index};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = spread * (2 * stream.uniform(i) - 1);
  return Tensor::from(values, shape);
}

struct Net : nn::Module {
  nn::Parameter up{random({16, 4}, 1, 0.5f)}, bias{Tensor::zeros({16})}, down{random({2, 16}, 2, 0.3f)};
  nn::Buffer mean{Tensor::zeros({4})};
  nn::Buffer count{Tensor::from(std::vector<std::int64_t>{0}, Shape{1})};
  double fragile = std::numeric_limits<double>::infinity();

  void visit(nn::Visitor& v) override {
    v("up.weight", up);
    v("up.bias", bias);
    v("down.weight", down);
    v("mean", mean);
    v("count", count);
  }
  Variable forward(const Variable& x) override {
    if (training()) observe(x.value());
    const Variable h = linear(x, up, bias, {.activation = Activation::kRelu});
    return linear(apply_one<Fragile>({.limit = fragile}, {h}), down);
  }
  void observe(const Tensor& x) {
    Tensor& running = mean.writable();
    for (std::int64_t c = 0; c < 4; ++c) {
      double sum = 0;
      for (std::int64_t row = 0; row < x.shape().rows(); ++row) sum += x.at(4 * row + c);
      float& m = running.mutable_data<float>()[c];
      m += 0.1f * (static_cast<float>(sum / static_cast<double>(x.shape().rows())) - m);
    }
    ++count.writable().mutable_data<std::int64_t>()[0];
  }
};

/// A network of two modules, which have paths, and a buffer.
struct Two : nn::Module {
  nn::Linear first{{.in = 4, .out = 16}}, second{{.in = 16, .out = 2}};
  nn::Buffer seen{Tensor::zeros({4})};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
    v("seen", seen);
  }
  Variable forward(const Variable& x) override { return second(relu(first(x))); }
};

struct Batch {
  Tensor x{}, target{};
  io::BatchOrigin origin{};
};

/// Returns batch k of a regression task.
inline Batch batch(std::uint32_t k, std::int64_t rows = 8) {
  Batch b{random({rows, 4}, 1000 + k), Tensor::zeros({rows, 2})};
  for (std::int64_t r = 0; r < rows; ++r) {
    float* t = b.target.mutable_data<float>() + 2 * r;
    t[0] = static_cast<float>(b.x.at(4 * r) * b.x.at(4 * r + 1));
    t[1] = static_cast<float>(std::sin(b.x.at(4 * r + 2)));
  }
  return b;
}

inline Batch with_nan(Batch b) {
  b.x.mutable_data<float>()[5] = std::nanf("");
  return b;
}

inline Variable loss(Net& net, const Batch& b) { return apply_one<SquaredError>({}, {net(b.x), Variable(b.target)}); }

inline void set_gradient_inf(const Variable& v) {
  Variable::State& state = *v.state();
  if (!state.grad.defined()) state.grad = Tensor::empty(v.shape());
  state.grad.fill(std::numeric_limits<double>::infinity());
  state.grad_defined = true;
}

/// A Runtime with a network, an optimizer and a trainer.
struct Training {
  Runtime runtime;
  Net net;
  optim::AdamW optimizer;
  Trainer trainer;

  explicit Training(const TrainerOptions& options = {}, int threads = 1, double lr = 0.01)
      : runtime({.seed = 1, .threads = threads}),
        optimizer(net, {.lr = lr}),
        trainer(runtime, net, optimizer, options) {}
  StepResult step(std::uint32_t k) { return step(batch(k)); }
  StepResult step(const Batch& b) {
    return trainer.step(b, [&](const Batch& x) { return loss(net, x); });
  }
  StepResult step(const MicroBatches<Batch>& parts) {
    return trainer.step(parts, [&](const Batch& x) { return loss(net, x); });
  }
};

}  // namespace binade::amp::toy
