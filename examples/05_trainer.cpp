// 5. The Trainer: a step is a transaction. It commits completely or changes nothing.
#include <binade.h>

#include <cstdio>

using namespace binade;

struct Net : nn::Module {  // maps x (B, 8) to (B, 1)
  nn::Linear in, out;
  nn::Dropout dropout;
  Net() : in({.in = 8, .out = 32}), out({.in = 32, .out = 1}), dropout({.p = 0.1}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("dropout", dropout);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(dropout(gelu(in(x)))); }
};

struct Batch {
  Tensor x, y;
};

Batch make_batch(int step, float factor) {
  const RandomStream numbers{7, RngPurpose::kData, static_cast<std::uint64_t>(step)};
  std::vector<float> x(16 * 8), y(16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = factor * static_cast<float>(numbers.normal(i));
  for (std::size_t row = 0; row < 16; ++row) y[row] = x[row * 8] - 2 * x[row * 8 + 3];
  return {Tensor::from(x, {16, 8}), Tensor::from(y, {16, 1})};
}

int main() {
  Runtime runtime({.seed = 1});
  Net model;
  optim::AdamW optimizer(model, {.lr = 1e-2});
  amp::Trainer trainer(runtime, model, optimizer,
                       {.precision = amp::Policy::fp16(), .clip_norm = 1, .state_hash = true});

  // The closure computes the loss of a batch and reads data only through its argument, so that a step can be repeated.
  const auto loss = [&](const Batch& b) { return nn::mse(model(b.x), b.y); };
  for (int step = 1; step <= 60; ++step) {
    trainer.step(make_batch(step, 1), loss);
    for (const amp::StepResult& r : trainer.finished())
      if (!r.committed || r.step % 20 == 0)
        std::printf("step %2lld  %s  loss %.4f  scale %g\n", static_cast<long long>(r.step),
                    r.committed ? "committed" : "aborted  ", r.loss, r.loss_scale);
  }

  // No loss scale helps against inputs that overflow f16: the step throws an error that says why, and changes nothing.
  const std::string before = trainer.state_hash();
  try {
    trainer.step(make_batch(61, 1e38f), loss);
  } catch (const NumericError& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("state %s\n", trainer.state_hash() == before ? "unchanged, to the bit" : "CHANGED");
  return trainer.state_hash() == before ? 0 : 1;
}
