// ResNet-18 for images of 32 by 32 pixels (He et al., "Deep residual learning for image recognition", 2016). It learns
// to tell six shapes apart. The width of the paper is --width 64.
#include "examples/models/common.h"

using namespace binade;

struct Block : nn::Module {  // (N, H, W, in) -> (N, H / stride, W / stride, out)
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Sequential shortcut;

  Block(int64_t in, int64_t out, int64_t stride)
      : conv1({.in = in, .out = out, .stride = stride, .padding = 1, .bias = false}),
        conv2({.in = out, .out = out, .padding = 1, .bias = false}),
        norm1({.channels = out, .relu = true}),
        norm2({.channels = out, .relu = true}) {
    if (in == out) return;
    shortcut.append(nn::Conv2d({.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false}));
    shortcut.append(nn::BatchNorm2d({.channels = out}));
  }
  void visit(nn::Visitor& v) override {
    v("conv1", conv1);
    v("norm1", norm1);
    v("conv2", conv2);
    v("norm2", norm2);
    v("shortcut", shortcut);
  }
  Variable forward(const Variable& x) override { return norm2(conv2(norm1(conv1(x))), shortcut(x)); }
};

nn::Sequential resnet18(int64_t width, int64_t classes) {
  nn::Sequential net(nn::Conv2d({.in = 3, .out = width, .padding = 1, .bias = false}),
                     nn::BatchNorm2d({.channels = width, .relu = true}));
  int64_t in = width;
  for (const int64_t out : {width, 2 * width, 4 * width, 8 * width})
    for (const int64_t stride : {out == width ? 1 : 2, 1}) {
      net.append(Block(in, out, stride));
      in = out;
    }
  net.append(nn::AdaptiveAvgPool2d({.size = 1}));
  net.append(nn::Flatten());
  net.append(nn::Linear({.in = in, .out = classes}));
  return net;
}

struct Images {
  Variable pixels, labels;  // (N, 32, 32, 3) and (N)
};

/// A disc, a ring, a square, a diamond, a plus or a cross, of random place, size and color, on noise.
Images shapes(int64_t count) {
  const Variable labels = randint(0, 6, {count}), at = linspace(-1, 1, 32), size = rand({count, 1, 1}) * 0.3 + 0.3;
  const Variable x = abs(reshape(at, {1, 1, 32}) - (rand({count, 1, 1}) - 0.5)) / size;
  const Variable y = abs(reshape(at, {1, 32, 1}) - (rand({count, 1, 1}) - 0.5)) / size;
  const Variable radius = hypot(x, y), far = maximum(x, y), near = minimum(x, y);
  const Variable masks = stack({radius < 1, (radius > 0.6) & (radius < 1), far < 0.8, x + y < 1,
                                (near < 0.25) & (far < 0.9), (far - near < 0.3) & (far < 0.9)},
                               -1);
  const Variable mask = gather(masks, 3, expand(reshape(labels, {-1, 1, 1, 1}), {-1, 32, 32, 1}));
  return {mask * rand({count, 1, 1, 3}) + 0.2 * randn({count, 32, 32, 3}), labels};
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 90}, {"batch", 32}, {"width", 8}});
  Runtime runtime(args.runtime());
  nn::Sequential model = resnet18(args["width"], 6);
  optim::Sgd optimizer(model, {.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  amp::Trainer trainer(runtime, model, optimizer,
                       {.precision = args.policy(), .schedule = optim::Schedule::one_cycle(0.1, args["steps"])});

  const auto loss = [&](const Images& b) { return nn::cross_entropy(model(b.pixels), b.labels); };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(shapes(args["batch"]), loss).loss);

  const Images test = shapes(600);
  const Variable found = trainer.evaluate([&] { return argmax(model(test.pixels), 1); });
  models::metric("accuracy", mean(cast(found == test.labels, DType::f32)).item());
}
