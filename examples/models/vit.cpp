// A vision transformer (Dosovitskiy et al., "An image is worth 16x16 words", 2021): a transformer encoder whose tokens
// are patches of an image. It learns to tell four shapes apart. ViT-S is --patch 16 --dim 384 --heads 6 --layers 12.
#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kSize = 32;

struct ViT : nn::Module {  // images (N, 32, 32, 3) -> logits (N, classes)
  nn::Conv2d patches;
  nn::Parameter start, positions;
  nn::TransformerEncoder encoder;
  nn::Linear head;

  ViT(int64_t patch, int64_t dim, int64_t heads, int64_t layers, int64_t classes)
      : patches({.in = 3, .out = dim, .kernel = patch, .stride = patch}),
        start(Tensor::zeros({1, 1, dim})),
        positions(normal(0, 0.02, {1, 1 + (kSize / patch) * (kSize / patch), dim})),
        encoder({.layers = layers,
                 .layer = {.dim = dim,
                           .heads = heads,
                           .hidden = 4 * dim,
                           .dropout = 0,
                           .activation = Activation::kGelu,
                           .norm_first = true},
                 .norm = true}),
        head({.in = dim, .out = classes}) {}
  void visit(nn::Visitor& v) override {
    v("patches", patches);
    v("start", start);
    v("positions", positions);
    v("encoder", encoder);
    v("head", head);
  }
  Variable forward(const Variable& x) override {
    const Variable tokens = flatten(patches(x), 1, 2);
    const Variable all = concat({expand(start, {x.dim(0), -1, -1}), tokens}, 1) + positions;
    return head(select(encoder(all), 1, 0));
  }
};

struct Images {
  Variable pixels, labels;  // (N, 32, 32, 3) and (N)
};

/// A disc, a ring, a square or a plus, of random place, size and color, on noise.
Images shapes(int64_t count) {
  const Variable labels = randint(0, 4, {count}), at = linspace(-1, 1, kSize), size = rand({count, 1, 1}) * 0.2 + 0.5;
  const Variable x = abs(reshape(at, {1, 1, -1}) - (rand({count, 1, 1}) - 0.5) * 0.5) / size;
  const Variable y = abs(reshape(at, {1, -1, 1}) - (rand({count, 1, 1}) - 0.5) * 0.5) / size;
  const Variable radius = hypot(x, y), far = maximum(x, y);
  const Variable masks = stack(
      {radius < 1, (radius > 0.6) & (radius < 1), far < 0.8, (minimum(x, y) < 0.25) & (far < 0.9)}, -1);
  const Variable mask = gather(masks, 3, expand(reshape(labels, {-1, 1, 1, 1}), {-1, kSize, kSize, 1}));
  return {mask * rand({count, 1, 1, 3}) + 0.2 * randn({count, kSize, kSize, 3}), labels};
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv,
                               {{"steps", 150}, {"batch", 32}, {"patch", 4}, {"dim", 48}, {"heads", 3}, {"layers", 2}});
  Runtime runtime(args.runtime());
  ViT model(args["patch"], args["dim"], args["heads"], args["layers"], 4);
  optim::AdamW optimizer(model, {.weight_decay = 0.05});
  amp::Trainer trainer(
      runtime, model, optimizer,
      {.precision = args.policy(), .schedule = optim::Schedule::one_cycle(3e-3, args["steps"]), .clip_norm = 1});

  const auto loss = [&](const Images& b) { return nn::cross_entropy(model(b.pixels), b.labels); };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(shapes(args["batch"]), loss).loss);

  const Images test = shapes(600);
  const Variable found = trainer.evaluate([&] { return argmax(model(test.pixels), 1); });
  models::metric("accuracy", mean(cast(found == test.labels, DType::f32)).item());
}
