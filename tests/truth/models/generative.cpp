#include <cmath>

#include "tests/truth/models/models.h"

/// Generative models: a variational autoencoder, a normalizing flow, a denoiser, the critic of a GAN.
namespace binade::truth {

namespace {

struct Encoder : nn::Module {
  nn::Linear hidden, mu, logvar;
  Tap* tap;
  explicit Encoder(Tap* t)
      : hidden({.in = 16, .out = 24, .activation = Activation::kRelu}),
        mu({.in = 24, .out = 4}),
        logvar({.in = 24, .out = 4}),
        tap(t) {}
  void visit(nn::Visitor& v) override {
    v("hidden", hidden);
    v("mu", mu);
    v("logvar", logvar);
  }
  std::pair<Variable, Variable> operator()(const Variable& x) {
    const nn::ModuleScope scope(*this);
    const Variable h = (*tap)(hidden(x));
    return {mu(h), logvar(h)};
  }
};

/// Kingma and Welling, 2013; the noise of the reparameterization is part of the batch.
struct VaeTask : Task {
  struct Net : nn::Module {
    Encoder encoder;
    nn::Sequential decoder;
    explicit Net(Tap* tap)
        : encoder(tap), decoder(nn::Linear({.in = 4, .out = 24}), nn::Relu(), nn::Linear({.in = 24, .out = 16})) {}
    void visit(nn::Visitor& v) override {
      v("encoder", encoder);
      v("decoder", decoder);
    }
  } model;
  explicit VaeTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "encoder"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const auto share = [](const Sample& s, std::int64_t k) { return 0.5 + 0.45 * s.latent() * (k % 2 == 0 ? 1 : -1); };
    return b.add("x", {n, 16}, {}, share)
        .add("noise", {n, 4}, {}, [](const Sample& s, std::int64_t k) { return s.normal(3, k); })
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const nn::ModuleScope scope(model);
    const auto [mu, logvar] = model.encoder(b["x"]);
    const Variable z = mu + exp(logvar * 0.5) * Variable(b["noise"]);
    const Variable kl = mean(1.0 + logvar - square(mu) - exp(logvar)) * -0.5;
    return nn::bce_with_logits(outer(model.decoder(z)), b["x"]) + kl * 0.1;
  }
};

/// Two affine couplings (Dinh et al., 2016); the negative log-likelihood may be below 0.
struct Coupling : nn::Module {
  nn::Linear hidden, scale, shift;
  Tap* tap;
  explicit Coupling(Tap* t)
      : hidden({.in = 3, .out = 16, .activation = Activation::kRelu}),
        scale({.in = 16, .out = 3}),
        shift({.in = 16, .out = 3}),
        tap(t) {}
  void visit(nn::Visitor& v) override {
    v("hidden", hidden);
    v("scale", scale);
    v("shift", shift);
  }
  /// The transformed half, and the logarithms of its scales.
  std::pair<Variable, Variable> operator()(const Variable& kept, const Variable& moved) {
    const nn::ModuleScope scope(*this);
    Variable h = hidden(kept);
    if (tap != nullptr) h = (*tap)(h);
    const Variable s = tanh(scale(h)) * 2.0;
    return {moved * exp(s) + shift(h), s};
  }
};

struct FlowTask : Task {
  struct Net : nn::Module {
    Coupling first, second;
    explicit Net(Tap* tap) : first(tap), second(nullptr) {}
    void visit(nn::Visitor& v) override {
      v("first", first);
      v("second", second);
    }
  } model;
  explicit FlowTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "first"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const auto value = [](const Sample& s, std::int64_t k) { return 0.4 * s.latent() + 0.1 * s.normal(1, k); };
    return b.add("x", {n, 6}, {}, value).gate("gate", {n, 1}).gate("gate_out", {n, 1}).take();
  }
  Variable loss(const Batch& b) override {
    const nn::ModuleScope scope(model);
    const Variable x(b["x"]);
    const Variable left = narrow(x, -1, 0, 3), right = narrow(x, -1, 3, 3);
    const auto [y, s1] = model.first(left, right);
    const auto [z, s2] = model.second(y, left);
    return mean(square(outer(y)) + square(z)) * 0.5 - mean(s1 + s2);
  }
};

/// Predicts the noise of a noisy vector (Ho et al., 2020). The loss is weighted by the signal-to-noise ratio, up to 5.
struct DenoiserTask : Task {
  struct Body : nn::Module {
    nn::Linear in, time, out;
    Tap* tap;
    explicit Body(Tap* t) : in({.in = 8, .out = 24}), time({.in = 4, .out = 24}), out({.in = 24, .out = 8}), tap(t) {}
    void visit(nn::Visitor& v) override {
      v("in", in);
      v("time", time);
      v("out", out);
    }
    Variable operator()(const Variable& x, const Variable& t) {
      const nn::ModuleScope scope(*this);
      return out((*tap)(silu(in(x) + time(t))));
    }
  };
  struct Net : nn::Module {
    Body body;
    explicit Net(Tap* tap) : body(tap) {}
    void visit(nn::Visitor& v) override { v("body", body); }
  } model;
  explicit DenoiserTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "body"; }
  nn::Module& net() override { return model; }
  static double signal(const Sample& s) { return 0.02 + 0.96 * s.uniform(40, 0); }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const auto noisy = [](const Sample& s, std::int64_t k) {
      return std::sqrt(signal(s)) * reading(s, k) + std::sqrt(1 - signal(s)) * s.normal(5, k);
    };
    return b.add("x", {n, 8}, {}, noisy)
        .add("time", {n, 4}, {}, [](const Sample& s, std::int64_t k) { return std::sin(signal(s) * std::pow(4.0, k)); })
        .add("y", {n, 8}, {}, [](const Sample& s, std::int64_t k) { return s.normal(5, k); })
        .add("weight", {n, 1}, {},
             [](const Sample& s, std::int64_t) { return std::min(signal(s) / (1 - signal(s)), 5.0); })
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const nn::ModuleScope scope(model);
    const Variable predicted = outer(model.body(b["x"], b["time"]));
    return mean(square(predicted - Variable(b["y"])) * Variable(b["weight"]));
  }
};

/// A critic sees real and fake vectors, stacked. Its loss (Arjovsky et al., 2017, with a drift term) is mostly below 0.
struct CriticTask : Task {
  struct Net : nn::Module {
    nn::Linear in, out;
    Tap* tap;
    explicit Net(Tap* t) : in({.in = 6, .out = 24}), out({.in = 24, .out = 1}), tap(t) {}
    void visit(nn::Visitor& v) override {
      v("in", in);
      v("out", out);
    }
    Variable forward(const Variable& x) override { return out((*tap)(maximum(in(x), in(x)*0.2))); }
  } model;
  explicit CriticTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = ""; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const Layout pair{.axis = 0, .views = 2};
    const auto value = [](const Sample& s, std::int64_t k) { return k < 6 ? reading(s, k) : s.normal(7, k); };
    return b.add("x", {2 * n, 6}, pair, value).gate("gate", {2 * n, 1}, pair).gate("gate_out", {2 * n, 1}, pair).take();
  }
  Variable loss(const Batch& b) override {
    const Variable score = outer(model(b["x"]));
    const std::int64_t n = score.dim(0) / 2;
    return mean(narrow(score, 0, n, n)) - mean(narrow(score, 0, 0, n)) + mean(square(score)) * 0.05;
  }
};

}  // namespace

std::vector<ModelEntry> generative_models() {
  return {{.name = "vae", .make = make_task<VaeTask>, .input = "x"},
          {.name = "flow", .make = make_task<FlowTask>, .input = "x"},
          {.name = "denoiser", .make = make_task<DenoiserTask>, .input = "x", .target = "y"},
          {.name = "critic", .make = make_task<CriticTask>, .input = "x"}};
}

}  // namespace binade::truth
