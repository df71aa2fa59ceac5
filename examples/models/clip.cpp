// CLIP (Radford et al., 2021): an image tower and a text tower learn one space, in which an image is nearest to its
// caption, by a contrastive loss with a learned temperature. Images show a disc, a ring, a cross or a bar in one of
// four colors in one of four quarters; captions are three words. Prints the share of images whose caption is found
// among all 64.
#include <cmath>

#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kKinds = 64;

struct Pairs {
  Variable images, captions;  // (B, 16, 16, 3) and (B, 3)
};

/// Draws an image of each kind, 0 … 63, and its caption.
Pairs draw(const Tensor& kinds) {
  const int64_t count = kinds.numel();
  const Variable shape = floor_divide(kinds, 16), color = remainder(floor_divide(kinds, 4), 4),
                 place = remainder(kinds, 4), axis = linspace(-1, 1, 16);
  const auto offset = [&](const Variable& side) { return reshape(side - 0.5 + 0.1 * randn({count}), {-1, 1, 1}); };
  const Variable x = abs(axis - offset(remainder(place, 2)));
  const Variable y = abs(unsqueeze(axis, 1) - offset(floor_divide(place, 2)));
  const Variable r = hypot(x, y), cross = 1.5 * hypot(x - y, 0.2 * (x + y));
  const Variable distances = stack({r, 2.5 * abs(r - 0.3), cross, hypot(0.7 * x, 2.5 * y)}, 1);
  const Variable inside = index(distances, {arange(count), shape}) < 0.35;
  const Variable colors = Tensor::from({{1.f, 0.f, 0.f}, {0.f, 1.f, 0.f}, {0.f, 0.f, 1.f}, {1.f, 1.f, 0.f}});
  const Variable paint = reshape(colors[color], {-1, 1, 1, 3});
  return {unsqueeze(inside, -1) * paint + 0.2 * randn({count, 16, 16, 3}), stack({shape, color + 4, place + 8}, 1)};
}

struct Clip : nn::Module {
  nn::Sequential image;
  nn::Embedding words;
  nn::Parameter positions, scale{Tensor::scalar(std::log(1 / 0.07))};
  nn::TransformerEncoder text;
  nn::Linear project;

  Clip(int64_t width, int64_t dim, int64_t layers)
      : image(nn::Conv2d({.in = 3, .out = width, .stride = 2, .padding = 1}), nn::Gelu(),
              nn::Conv2d({.in = width, .out = 2 * width, .stride = 2, .padding = 1}), nn::Gelu(), nn::Flatten(),
              nn::Linear({.in = 32 * width, .out = dim})),
        words({.count = 12, .dim = dim}),
        positions(Tensor::zeros({3, dim})),
        text({.layers = layers,
              .layer = {.dim = dim, .heads = 4, .hidden = 2 * dim, .dropout = 0, .norm_first = true},
              .norm = true}),
        project({.in = dim, .out = dim, .bias = false}) {}
  void visit(nn::Visitor& v) override {
    v("image", image), v("words", words), v("positions", positions), v("scale", scale), v("text", text);
    v("project", project);
  }
  /// Logits (images, captions): cosines divided by the temperature.
  Variable operator()(const Pairs& b) {
    const nn::ModuleScope scope(*this);
    const Variable seen = normalize(image(b.images));
    const Variable read = normalize(project(mean(text(words(b.captions) + positions), 1)));
    return clamp(exp(scale), 0, 100) * matmul(seen, transpose(read));
  }
};

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 200}, {"batch", 32}, {"width", 16}, {"dim", 32}, {"layers", 2}});
  Runtime runtime(args.runtime());
  Clip model(args["width"], args["dim"], args["layers"]);
  optim::Adam optimizer(model, {.lr = 2e-3});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy()});

  const Tensor own = arange(args["batch"]);
  const auto loss = [&](const Pairs& batch) {
    const Variable logits = model(batch);
    return (cross_entropy(logits, own) + cross_entropy(transpose(logits), own)) / 2;
  };
  for (const int64_t step : args.steps())
    args.report(step, trainer.step(draw(randperm(kKinds).narrow(0, args["batch"])), loss).loss);

  const Tensor kinds = repeat(arange(kKinds), {4}).value();
  Pairs held_out = draw(kinds);
  held_out.captions = held_out.captions.value().narrow(0, kKinds);
  const Variable found = trainer.evaluate([&] { return argmax(model(held_out), 1); });
  models::metric("accuracy", mean(cast(found == kinds, DType::f32)).item());
}
