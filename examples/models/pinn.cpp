// A physics-informed network (Raissi, Perdikaris, Karniadakis, 2019) solves Burgers' equation u_t + u u_x = nu u_xx for
// x in [-1, 1] and t in [0, 1], from values at t = 0 and x = -1, 1. Prints the relative error (root mean square)
// against the exact solution, a moving front.
#include "examples/models/common.h"

using namespace binade;

constexpr double kViscosity = 0.05, kSpeed = 0.5;

/// u = speed (1 - tanh(speed (x - speed t) / (2 nu))) at points (N, 2) of x and t -> (N, 1).
Variable exact(const Variable& at) {
  const Variable x = narrow(at, 1, 0, 1), t = slice(at, 1, 1);
  return kSpeed * (1 - tanh(kSpeed / (2 * kViscosity) * (x - kSpeed * t)));
}

struct Points {
  Variable inside, edge;  // (N, 2)
};

Points draw(int64_t count) {
  const Variable x = 2 * rand({count, 1}) - 1, t = rand({count, 1}), zero = Tensor::zeros({count, 1});
  return {concat({2 * rand({count, 1}) - 1, rand({count, 1})}), concat({concat({x, zero}), concat({sign(x), t})}, 0)};
}

Variable residual(nn::Module& u, const Variable& at) {
  const Variable points(at.value(), true), value = u(points);
  const Variable first = grad(sum(value), points, {.create_graph = true});
  const Variable u_x = narrow(first, 1, 0, 1), u_t = slice(first, 1, 1);
  const Variable u_xx = narrow(grad(sum(u_x), points, {.create_graph = true}), 1, 0, 1);
  return u_t + value * u_x - kViscosity * u_xx;
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 1000}, {"points", 128}, {"width", 24}});
  Runtime runtime(args.runtime());
  const int64_t width = args["width"];
  nn::Sequential u(nn::Linear({.in = 2, .out = width}), nn::Tanh(), nn::Linear({.in = width, .out = width}), nn::Tanh(),
                   nn::Linear({.in = width, .out = width}), nn::Tanh(), nn::Linear({.in = width, .out = 1}));
  optim::Adam optimizer(u);
  amp::Trainer trainer(runtime, u, optimizer,
                       {.precision = args.policy(), .schedule = optim::Schedule::cosine(5e-3, args["steps"])});

  const auto loss = [&](const Points& b) {
    return mean(square(residual(u, b.inside))) + mse(u(b.edge), exact(b.edge));
  };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(draw(args["points"]), loss).loss);

  const Variable at = draw(4096).inside, truth = exact(at);
  const Variable found = trainer.evaluate([&] { return u(at); });
  models::metric("error", (norm(found - truth) / norm(truth)).item());
}
