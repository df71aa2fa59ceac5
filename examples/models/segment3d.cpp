// A 3-D U-Net (Cicek et al., 2016) segments drawn volumes: a ball and a box of equal brightness in noise, so that only
// their shapes tell them apart. Prints the mean Dice score of both on new volumes.
#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kClasses = 3;

struct Scans {
  Variable volumes, labels;  // (B, S, S, S, 1) and (B, S, S, S): 0 background, 1 ball, 2 box
};

Scans draw(int64_t count, int64_t side) {
  const Variable axis = linspace(-1, 1, side);
  const std::vector<Variable> grid = meshgrid({axis, axis, axis});
  const auto each = [&](double low, double high) { return reshape(low + (high - low) * rand({count}), {-1, 1, 1, 1}); };
  const Variable turn = where(rand({count, 1, 1, 1}) < 0.5, -1.0, 1.0);  // which half has the ball
  const Variable radius = each(0.3, 0.45), half = each(0.25, 0.38);
  Variable square_sum = square(grid[0] - turn * each(0.45, 0.55)), largest = abs(grid[0] + turn * each(0.45, 0.55));
  for (const Variable& along : {grid[1], grid[2]}) {
    square_sum += square(along - each(-0.5, 0.5));
    largest = maximum(largest, abs(along - each(-0.5, 0.5)));
  }
  const Variable labels = where(largest < half, 2, where(square_sum < square(radius), 1, 0));
  return {unsqueeze((labels > 0) + 0.2 * randn({count, side, side, side}), -1), labels};
}

nn::Sequential convolutions(int64_t in, int64_t out) {
  const nn::InstanceNormOptions norm{.channels = out, .affine = true};
  return nn::Sequential(nn::Conv3d({.in = in, .out = out, .padding = 1}), nn::InstanceNorm3d(norm), nn::Relu(),
                        nn::Conv3d({.in = out, .out = out, .padding = 1}), nn::InstanceNorm3d(norm), nn::Relu());
}

struct UNet : nn::Module {  // volumes (B, S, S, S, 1) -> logits (B, S, S, S, 3)
  nn::ModuleList<nn::Sequential> down, up;
  nn::ModuleList<nn::ConvTranspose3d> enlarge;
  nn::Conv3d head;

  UNet(int64_t width, int64_t levels) : head({.in = width, .out = kClasses, .kernel = 1}) {
    for (int64_t i = 0, in = 1, out = width; i <= levels; ++i, in = out, out *= 2)
      down.emplace_back(convolutions(in, out));
    for (int64_t out = width << (levels - 1); out >= width; out /= 2) {
      enlarge.emplace_back(nn::ConvTranspose3dOptions{.in = 2 * out, .out = out, .stride = 2});
      up.emplace_back(convolutions(2 * out, out));
    }
  }
  void visit(nn::Visitor& v) override {
    down.visit("down", v), enlarge.visit("enlarge", v), up.visit("up", v);
    v("head", head);
  }
  Variable forward(const Variable& x) override {
    std::vector<Variable> skips{down[0](x)};
    for (std::size_t i = 1; i < down.size(); ++i) skips.push_back(down[i](max_pool3d(skips.back())));
    Variable y = skips.back();
    for (std::size_t i = 0; i < up.size(); ++i) y = up[i](concat({skips[up.size() - 1 - i], enlarge[i](y)}));
    return head(y);
  }
};

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 100}, {"batch", 4}, {"side", 16}, {"width", 8}, {"levels", 2}});
  Runtime runtime(args.runtime());
  UNet model(args["width"], args["levels"]);
  optim::Adam optimizer(model, {.lr = 4e-3});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy()});

  const Variable weight = Tensor::from({0.1f, 1.0f, 1.0f});  // most voxels are background
  const auto loss = [&](const Scans& b) { return cross_entropy(model(b.volumes), b.labels, {}, weight); };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(draw(args["batch"], args["side"]), loss).loss);

  const Scans held_out = draw(16, args["side"]);
  const Variable found = trainer.evaluate([&] { return argmax(model(held_out.volumes), -1); });
  double dice = 0;
  for (const int kind : {1, 2}) {
    const Variable a = found == kind, b = held_out.labels == kind;
    dice += sum(a & b).item() / (sum(a).item() + sum(b).item());
  }
  models::metric("dice", dice);
}
