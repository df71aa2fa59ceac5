// A convolutional variational autoencoder (Kingma, Welling, "Auto-encoding variational Bayes", 2014) of images of
// discs, whose place and size are three numbers. It prints the bound of -log p(image) on images that it has not seen.
#include "examples/models/common.h"

using namespace binade;

struct Vae : nn::Module {
  nn::Sequential encoder, decoder;

  Vae(int64_t width, int64_t latent)
      : encoder(nn::Conv2d({.in = 1, .out = width, .kernel = 4, .stride = 2, .padding = 1}), nn::Relu(),
                nn::Conv2d({.in = width, .out = 2 * width, .kernel = 4, .stride = 2, .padding = 1}), nn::Relu(),
                nn::Flatten(), nn::Linear({.in = 32 * width, .out = 2 * latent})),
        decoder(nn::Linear({.in = latent, .out = 32 * width}), nn::Relu(), nn::Unflatten({.sizes = {4, 4, 2 * width}}),
                nn::ConvTranspose2d({.in = 2 * width, .out = width, .kernel = 4, .stride = 2, .padding = 1}),
                nn::Relu(), nn::ConvTranspose2d({.in = width, .out = 1, .kernel = 4, .stride = 2, .padding = 1})) {}
  void visit(nn::Visitor& v) override {
    v("encoder", encoder);
    v("decoder", decoder);
  }

  /// The negative evidence lower bound of images (N, 16, 16, 1), in nats per image.
  Variable loss(const Variable& x) {
    const nn::ModuleScope scope(*this);
    const std::vector<Variable> code = chunk(encoder(x), 2, 1);
    const Variable &mean = code[0], &log_var = code[1];
    const Variable logits = decoder(normal(mean, exp(0.5 * log_var)));
    const Variable divergence = 0.5 * sum(square(mean) + exp(log_var) - 1 - log_var);
    return (nn::bce_with_logits(logits, x, {.reduction = Reduction::kSum}) + divergence) / x.dim(0);
  }
};

/// White discs of random place and size (N, 16, 16, 1).
Tensor discs(int64_t count) {
  const Variable at = linspace(-1, 1, 16), radius = rand({count, 1, 1, 1}) * 0.4 + 0.2;
  const Variable x = reshape(at, {1, 1, 16, 1}) - (rand({count, 1, 1, 1}) - 0.5);
  const Variable y = reshape(at, {1, 16, 1, 1}) - (rand({count, 1, 1, 1}) - 0.5);
  return cast(hypot(x, y) < radius, DType::f32).value();
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv, {{"steps", 300}, {"batch", 64}, {"width", 16}, {"latent", 8}});
  Runtime runtime(args.runtime());
  Vae model(args["width"], args["latent"]);
  optim::Adam optimizer(model, {.lr = 3e-3});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy()});

  const auto loss = [&](const Tensor& x) { return model.loss(x); };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(discs(args["batch"]), loss).loss);

  models::metric("elbo", trainer.evaluate([&] { return loss(discs(1000)).item(); }));
}
