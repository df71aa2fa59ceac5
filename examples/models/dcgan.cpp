// A convolutional GAN (Radford et al., "Unsupervised representation learning with deep convolutional GANs", 2016) with
// the loss of Gulrajani et al., "Improved training of Wasserstein GANs", 2017: a penalty on the critic's gradient.
// Critic and generator are updated in one step, which commits both updates or none. It learns images of discs.
#include "examples/models/common.h"

using namespace binade;

nn::Sequential make_generator(int64_t latent, int64_t width) {  // (N, latent) -> (N, 16, 16, 1) from -1 to 1
  return nn::Sequential(
      nn::Linear({.in = latent, .out = 64 * width}), nn::Unflatten({.sizes = {4, 4, 4 * width}}),
      nn::BatchNorm2d({.channels = 4 * width, .relu = true}),
      nn::ConvTranspose2d({.in = 4 * width, .out = 2 * width, .kernel = 4, .stride = 2, .padding = 1}),
      nn::BatchNorm2d({.channels = 2 * width, .relu = true}),
      nn::ConvTranspose2d({.in = 2 * width, .out = 1, .kernel = 4, .stride = 2, .padding = 1}), nn::Tanh());
}

nn::Sequential make_critic(int64_t width) {  // (N, 16, 16, 1) -> (N, 1)
  return nn::Sequential(nn::Conv2d({.in = 1, .out = 2 * width, .kernel = 4, .stride = 2, .padding = 1}),
                        nn::LeakyRelu({.slope = 0.2}),
                        nn::Conv2d({.in = 2 * width, .out = 4 * width, .kernel = 4, .stride = 2, .padding = 1}),
                        nn::LeakyRelu({.slope = 0.2}), nn::Flatten(), nn::Linear({.in = 64 * width, .out = 1}));
}

/// Discs of random place and size with soft edges (N, 16, 16, 1), from -1 to 1.
Tensor discs(int64_t count) {
  const Variable at = linspace(-1, 1, 16), radius = rand({count, 1, 1, 1}) * 0.3 + 0.3;
  const Variable x = reshape(at, {1, 1, 16, 1}) - (rand({count, 1, 1, 1}) - 0.5);
  const Variable y = reshape(at, {1, 16, 1, 1}) - (rand({count, 1, 1, 1}) - 0.5);
  return tanh((radius - hypot(x, y)) * 10).value();
}

/// The mean of (|slope| - 1)^2, where slope is the critic's gradient at random points between two sets of images.
Variable penalty(nn::Module& critic, const Variable& real, const Variable& made) {
  const Variable between(lerp(made, real, rand({real.dim(0), 1, 1, 1})).value(), true);
  const Variable slope = grad(sum(critic(between)), between, {.create_graph = true});
  return mean(square(norm(flatten(slope), 2, 1) - 1));
}

/// The mean distance (root mean square of 256 pixels) of images from the nearest image of the other set, summed over
/// both sets. It is large if images have no structure, and also if a set has images of one kind only.
double distance(const Variable& a, const Variable& b) {
  const Variable all = cdist(flatten(a), flatten(b)) / 16;
  return (mean(min(all, {0})) + mean(min(all, {1}))).item();
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 600}, {"batch", 32}, {"width", 8}, {"latent", 16}});
  Runtime runtime(args.runtime());
  nn::Sequential generator = make_generator(args["latent"], args["width"]), critic = make_critic(args["width"]);
  optim::Adam generator_optimizer(generator, {.lr = 2e-3, .beta1 = 0.5, .beta2 = 0.9});
  optim::Adam critic_optimizer(critic, {.lr = 2e-3, .beta1 = 0.5, .beta2 = 0.9});
  amp::Trainer trainer(runtime, {{"critic", critic}, {"generator", generator}},
                       {{"critic", critic_optimizer}, {"generator", generator_optimizer}},
                       {.precision = args.policy()});

  const auto make = [&](int64_t count) { return generator(randn({count, args["latent"]})); };
  const auto judge = [&](const Tensor& real) {
    const Variable made = make(real.dim(0)).detach();
    return mean(critic(made)) - mean(critic(real)) + 10 * penalty(critic, real, made);
  };
  const auto deceive = [&](const Tensor& real) { return -mean(critic(make(real.dim(0)))); };
  auto phases = amp::Phases(amp::phase(critic_optimizer, judge), amp::phase(generator_optimizer, deceive));
  for (const int64_t step : args.steps()) args.report(step, trainer.step(discs(args["batch"]), phases).loss);

  models::metric("distance", trainer.evaluate([&] { return distance(make(256), discs(256)); }));
}
