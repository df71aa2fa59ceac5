// A Wasserstein GAN with gradient penalty (Gulrajani et al., "Improved training of Wasserstein GANs", 2017). A
// generator learns to place points on a circle. The penalty is a function of the critic's gradient, so its own gradient
// needs second derivatives. See docs/second-derivatives.md.
#include <binade.h>

#include <cmath>
#include <cstdio>

using namespace binade;

constexpr std::int64_t kBatch = 64;
constexpr double kRadius = 2;

nn::Sequential network(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Linear({.in = in, .out = 32}), nn::Silu(), nn::Linear({.in = 32, .out = 32}), nn::Silu(),
                        nn::Linear({.in = 32, .out = out}));
}

/// A new stream of random numbers with every call.
RandomStream next_stream() {
  static std::uint64_t calls = 0;
  return {.seed = 3, .purpose = RngPurpose::kData, .step = ++calls};
}

Tensor normal_numbers(const Shape& shape) {
  const RandomStream stream = next_stream();
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(stream.normal(i));
  return Tensor::from(values, shape);
}

Tensor points_on_circle() {
  const RandomStream stream = next_stream();
  std::vector<float> values;
  for (std::uint64_t i = 0; i < kBatch; ++i) {
    const double angle = 2 * 3.14159265358979 * stream.uniform(i);
    values.push_back(static_cast<float>(kRadius * std::cos(angle)));
    values.push_back(static_cast<float>(kRadius * std::sin(angle)));
  }
  return Tensor::from(values, {kBatch, 2});
}

/// mean((|slope| - 1)^2), where slope is the critic's gradient at random points between real and generated ones.
Variable penalty(nn::Module& critic, const Tensor& real, const Tensor& generated) {
  const RandomStream stream = next_stream();
  std::vector<float> shares(kBatch);
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = stream.uniform(i);
  const Variable share = Tensor::from(shares, {kBatch, 1});
  const Variable x((share * real + (1 - share) * generated).value(), /*requires_grad=*/true);
  const Variable slope = grad(sum(critic(x)), x, {.create_graph = true});
  return mean(square(sqrt(sum(square(slope), {1}) + 1e-12) - 1));
}

double mean_distance_from_circle(const Tensor& points) {
  double sum = 0;
  for (std::int64_t i = 0; i < points.dim(0); ++i)
    sum += std::abs(std::hypot(points.at(2 * i), points.at(2 * i + 1)) - kRadius);
  return sum / static_cast<double>(points.dim(0));
}

int main() {
  Runtime runtime({.seed = 1});
  nn::Sequential generator = network(2, 2), critic = network(2, 1);
  optim::Adam generator_updates(generator, {.lr = 2e-3, .beta1 = 0.5, .beta2 = 0.9});
  optim::Adam critic_updates(critic, {.lr = 2e-3, .beta1 = 0.5, .beta2 = 0.9});
  const auto generate = [&] { return generator(normal_numbers({kBatch, 2})); };

  for (int step = 1; step <= 800; ++step) {
    for (int k = 0; k < 3; ++k) {
      const Tensor real = points_on_circle(), generated = generate().value();
      critic_updates.zero_grad();
      const Variable loss = mean(critic(generated)) - mean(critic(real)) + 0.5 * penalty(critic, real, generated);
      backward(loss);
      critic_updates.step();
      if (step % 200 == 0 && k == 0) std::printf("step %3d  critic loss %8.4f\n", step, loss.item());
    }
    generator_updates.zero_grad();
    backward(-mean(critic(generate())));
    generator_updates.step();
  }
  const double distance = mean_distance_from_circle(generate().value());
  std::printf("mean distance of generated points from the circle: %.3f\n", distance);
  return distance < 0.3 ? 0 : 1;
}
