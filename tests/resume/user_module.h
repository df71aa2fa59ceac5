#pragma once

#include "binade.h"

namespace binade::resume {

/// A user's op with random numbers: y = x (1 + amplitude u), with u in [-1, 1) random per element.
struct Jitter {
  struct Params {
    float amplitude = 0.1f;
  };
  static constexpr OpInfo info{.name = "jitter", .inputs = "x"};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    Tensor y = Tensor::empty(in[0].shape(), ctx.store_dtype);
    multiply(y, in[0], ctx.rng, p.amplitude);
    return {y};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (!gx.needs(0)) return;
    Tensor to = gx.destination(0);
    multiply(to, gy[0], ctx.rng, p.amplitude);
  }

 private:
  static void multiply(Tensor& to, const Tensor& from, const RandomStream& stream, float amplitude) {
    std::vector<float> values = from.to(DType::f32).to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + amplitude * (2 * stream.uniform(i) - 1);
    to.copy_from(Tensor::from(values, from.shape()));
  }
};

/// Features (B, 12) -> (B, 1). Its buffers are the running mean of the inputs and the number of batches; its result
/// depends on the mean, whose update depends on the number.
struct UserNet : nn::Module {
  nn::Linear first{{.in = 12, .out = 160}}, second{{.in = 160, .out = 1}};
  nn::Buffer mean{Tensor::zeros({12})};
  nn::Buffer count{Tensor::from(std::vector<std::int64_t>{0}, Shape{1})};

  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
    v("mean", mean);
    v("count", count);
  }
  Variable forward(const Variable& x) override {
    if (training()) observe(x.value());
    const Variable centered = x - Variable(mean.value());
    return second(apply_one<Jitter>({}, {relu(first(centered))}));
  }

 private:
  void observe(const Tensor& x) {
    const std::int64_t seen = ++count.writable().mutable_data<std::int64_t>()[0];
    float* running = mean.writable().mutable_data<float>();
    for (std::int64_t c = 0; c < 12; ++c) {
      double sum = 0;
      for (std::int64_t row = 0; row < x.dim(0); ++row) sum += x.at(12 * row + c);
      running[c] += (static_cast<float>(sum / static_cast<double>(x.dim(0))) - running[c]) / static_cast<float>(seen);
    }
  }
};

}  // namespace binade::resume
