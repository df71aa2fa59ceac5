// A diffusion model (Ho et al., "Denoising diffusion probabilistic models", 2020): a U-Net that gets the time removes
// noise from images. It predicts the velocity of Salimans, Ho, "Progressive distillation", 2022. Averaged weights make
// images from noise in 20 steps (Song et al., "Denoising diffusion implicit models", 2021). It learns images of discs.
#include <cmath>
#include <numbers>

#include "examples/models/common.h"

using namespace binade;

struct Block : nn::Module {  // x (N, H, W, in) and time (N, dim) -> (N, H, W, out)
  nn::GroupNorm norm1, norm2;
  nn::Conv2d conv1, conv2, skip;
  nn::Linear time;

  Block(int64_t in, int64_t out, int64_t dim)
      : norm1({.groups = 4, .channels = in}),
        norm2({.groups = 4, .channels = out}),
        conv1({.in = in, .out = out, .padding = 1}),
        conv2({.in = out, .out = out, .padding = 1}),
        skip({.in = in, .out = out, .kernel = 1}),
        time({.in = dim, .out = out}) {}
  void visit(nn::Visitor& v) override {
    v("norm1", norm1);
    v("conv1", conv1);
    v("time", time);
    v("norm2", norm2);
    v("conv2", conv2);
    v("skip", skip);
  }
  Variable operator()(const Variable& x, const Variable& t) {
    const nn::ModuleScope scope(*this);
    const Variable h = conv1(silu(norm1(x))) + reshape(time(t), {x.dim(0), 1, 1, -1});
    return conv2(silu(norm2(h))) + skip(x);
  }
};

struct UNet : nn::Module {  // images (N, 16, 16, 1) and times (N) from 0 to 1 -> velocities (N, 16, 16, 1)
  nn::Sequential time, out;
  nn::Conv2d in, down, up;
  Block before, middle, after;
  nn::LayerNorm norm;
  nn::MultiHeadAttention attention;
  int64_t width;

  explicit UNet(int64_t w)
      : time(nn::Linear({.in = 2 * w, .out = 4 * w}), nn::Silu(), nn::Linear({.in = 4 * w, .out = 4 * w}), nn::Silu()),
        out(nn::GroupNorm({.groups = 4, .channels = w}), nn::Silu(), nn::Conv2d({.in = w, .out = 1, .padding = 1})),
        in({.in = 1, .out = w, .padding = 1}),
        down({.in = w, .out = 2 * w, .stride = 2, .padding = 1}),
        up({.in = 2 * w, .out = w, .padding = 1}),
        before(w, w, 4 * w),
        middle(2 * w, 2 * w, 4 * w),
        after(2 * w, w, 4 * w),
        norm({.dim = 2 * w}),
        attention({.dim = 2 * w, .heads = 2}),
        width(w) {}
  void visit(nn::Visitor& v) override {
    v("time", time);
    v("in", in);
    v("before", before);
    v("down", down);
    v("middle", middle);
    v("norm", norm);
    v("attention", attention);
    v("up", up);
    v("after", after);
    v("out", out);
  }
  Variable operator()(const Variable& x, const Variable& t) {
    const nn::ModuleScope scope(*this);
    const Variable angles = unsqueeze(t, 1) * logspace(0, 3, width);
    const Variable embedding = time(concat({sin(angles), cos(angles)}, 1));
    const Variable fine = before(in(x), embedding), coarse = middle(down(fine), embedding);
    const Variable tokens = flatten(coarse, 1, 2);
    const Variable mixed = coarse + reshape(attention(norm(tokens)), {x.dim(0), 8, 8, -1});
    return out(after(concat({upsample(up(mixed), 2), fine}, -1), embedding));
  }
};

/// Discs of random place and size with soft edges (N, 16, 16, 1), from -1 to 1.
Tensor discs(int64_t count) {
  const Variable at = linspace(-1, 1, 16), radius = rand({count, 1, 1, 1}) * 0.3 + 0.3;
  const Variable x = reshape(at, {1, 1, 16, 1}) - (rand({count, 1, 1, 1}) - 0.5);
  const Variable y = reshape(at, {1, 16, 1, 1}) - (rand({count, 1, 1, 1}) - 0.5);
  return tanh((radius - hypot(x, y)) * 10).value();
}

/// Makes images from noise: x = cos(angle) image + sin(angle) noise, from an angle of pi / 2 down to 0.
Variable sample(UNet& model, int64_t count, int steps) {
  Variable x = randn({count, 16, 16, 1});
  for (int i = steps; i > 0; --i) {
    const double angle = std::numbers::pi / 2 * i / steps, next = std::numbers::pi / 2 * (i - 1) / steps;
    const Variable v = model(x, Tensor::full({count}, static_cast<double>(i) / steps));
    x = std::cos(next) * (std::cos(angle) * x - std::sin(angle) * v) +
        std::sin(next) * (std::sin(angle) * x + std::cos(angle) * v);
  }
  return x;
}

/// The mean distance of two sets of images along random directions (sliced Wasserstein distance).
double distance(const Variable& a, const Variable& b) {
  const Variable directions = normalize(randn({256, 128}), 2, 0);
  const auto sorted = [&](const Variable& x) { return sort(matmul(flatten(x), directions), 0).values; };
  return mean(abs(sorted(a) - sorted(b))).item();
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 200}, {"batch", 32}, {"width", 16}});
  Runtime runtime(args.runtime());
  UNet model(args["width"]);
  optim::AdamW optimizer(model, {.lr = 3e-3, .weight_decay = 0});
  amp::Trainer trainer(runtime, model, optimizer,
                       {.precision = args.policy(), .clip_norm = 1, .ema = optim::EmaOptions{.decay = 0.98}});

  const auto loss = [&](const Tensor& image) {
    const Variable t = rand({image.dim(0)}), angle = reshape(t * (std::numbers::pi / 2), {-1, 1, 1, 1});
    const Variable noise = randn_like(image);
    return nn::mse(model(cos(angle) * image + sin(angle) * noise, t), cos(angle) * noise - sin(angle) * image);
  };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(discs(args["batch"]), loss).loss);

  models::metric("distance", trainer.evaluate([&] { return distance(sample(model, 256, 20), discs(256)); }));
}
