// A physics-informed network (Raissi, Perdikaris, Karniadakis, 2019) solves u'' = -sin(x) on [0, pi] with u = 0 at both
// ends; the solution is sin(x). The loss contains u'', so each training step computes third derivatives. The step is an
// ordinary one of the Trainer. See docs/second-derivatives.md.
#include <binade.h>

#include <cmath>
#include <cstdio>

using namespace binade;

constexpr double kPi = 3.14159265358979323846;

struct Solution : nn::Module {  // x (B, 1) -> u (B, 1)
  nn::Linear in{{.in = 1, .out = 24}}, middle{{.in = 24, .out = 24}}, out{{.in = 24, .out = 1}};

  void visit(nn::Visitor& v) override { v("in", in), v("middle", middle), v("out", out); }
  /// The factor x (pi - x) makes u 0 at both ends.
  Variable forward(const Variable& x) override { return x * (kPi - x) * out(tanh(middle(tanh(in(x - kPi / 2))))); }
};

Tensor points(std::uint64_t step) {
  const RandomStream stream{.seed = 5, .purpose = RngPurpose::kData, .step = step};
  std::vector<float> x(32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(kPi) * stream.uniform(i);
  return Tensor::from(x, {32, 1});
}

/// mean((u'' + sin(x))^2).
Variable residual(nn::Module& u, const Tensor& at) {
  std::vector<float> sines = at.to_vector<float>();
  for (float& x : sines) x = std::sin(x);
  const Variable x(at, /*requires_grad=*/true);
  const Variable first = grad(sum(u(x)), x, {.create_graph = true});
  const Variable second = grad(sum(first), x, {.create_graph = true});
  return mean(square(second + Tensor::from(sines, at.shape())));
}

double largest_error(nn::Module& u) {
  const NoGradGuard no_grad;
  double largest = 0;
  for (int i = 0; i <= 50; ++i) {
    const double x = kPi * i / 50;
    largest = std::max(largest, std::abs(u(Tensor::full({1, 1}, x)).item() - std::sin(x)));
  }
  return largest;
}

int main() {
  Runtime runtime({.seed = 1});
  Solution u;
  optim::Adam optimizer(u, {.lr = 5e-3});
  amp::Trainer trainer(runtime, u, optimizer, {.precision = amp::Policy::fp32()});
  for (std::uint64_t step = 1; step <= 500; ++step) {
    const amp::StepResult result = trainer.step(points(step), [&](const Tensor& at) { return residual(u, at); });
    if (step % 100 == 0) std::printf("step %3d  mean squared residual %.2e\n", static_cast<int>(step), result.loss);
  }
  trainer.finished();
  const double error = largest_error(u);
  std::printf("largest error against sin(x): %.1e\n", error);
  return error < 0.01 ? 0 : 1;
}
