#include <cmath>

#include "tests/truth/models/models.h"

/// Reinforcement learning (a Q-network with a target network, a policy gradient), a mixture of experts, a network that
/// solves a differential equation.
namespace binade::truth {

namespace {

double chosen(const Sample& s, std::int64_t k) { return k == static_cast<std::int64_t>(3 * s.uniform(60, 0)) ? 1 : 0; }

struct ActionNet : nn::Module {
  nn::Linear in, out;
  Tap* tap;
  explicit ActionNet(Tap* t)
      : in({.in = 6, .out = 24, .activation = Activation::kRelu}), out({.in = 24, .out = 3}), tap(t) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override {
    const Variable h = in(x);
    return out(tap != nullptr ? (*tap)(h) : h);
  }
};

/// Mnih et al., 2015: rewards are sparse, targets come from a frozen network outside of the model.
struct DqnTask : Task {
  ActionNet model, target;
  explicit DqnTask(const TaskOptions& o) : Task(o), model(&inner), target(nullptr) {}
  nn::Module& net() override { return model; }
  nn::Module* outside() override { return &target; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 6}, {}, reading)
        .add("next", {n, 6}, {}, [](const Sample& s, std::int64_t k) { return reading(s, k) + 0.1 * s.normal(8, k); })
        .add("action", {n, 3}, {}, chosen)
        .add("reward", {n, 1}, {}, [](const Sample& s, std::int64_t) { return s.uniform(61, 0) < 0.1 ? 1.0 : 0.0; })
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable wanted = (Variable(b["reward"]) + max(target(b["next"]), {-1}, true) * 0.9).detach();
    const Variable q = sum(outer(model(b["x"])) * Variable(b["action"]), {-1}, true);
    return nn::huber(q, cast(wanted, q.dtype()));
  }
};

/// Williams, 1992, with an entropy bonus: a loss of both signs.
struct PolicyGradientTask : Task {
  ActionNet model;
  explicit PolicyGradientTask(const TaskOptions& o) : Task(o), model(&inner) {}
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 6}, {}, reading)
        .add("action", {n, 3}, {}, chosen)
        .add("advantage", {n, 1}, {}, [](const Sample& s, std::int64_t) { return s.normal(62, 0); })
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable logp = log_softmax(outer(model(b["x"])));
    const Variable taken = sum(logp * Variable(b["action"]), {-1}, true);
    const Variable entropy = -sum(exp(logp) * logp, {-1}, true);
    return -mean(taken * Variable(b["advantage"])) - mean(entropy) * 0.05;
  }
};

/// Three experts, softly gated, with a loss that balances their use (Shazeer et al., 2017).
struct ExpertsTask : Task {
  struct Experts : nn::Module {
    nn::ModuleList<nn::Mlp> experts;
    nn::Linear router;
    Tap* tap;
    explicit Experts(Tap* t) : router({.in = 8, .out = 3}), tap(t) {
      for (int i = 0; i < 3; ++i) experts.emplace_back(nn::MlpOptions{.dim = 8, .hidden = 12});
    }
    void visit(nn::Visitor& v) override {
      experts.visit("experts", v);
      v("router", router);
    }
    std::pair<Variable, Variable> operator()(const Variable& x) {
      const nn::ModuleScope scope(*this);
      const Variable share = softmax(router(x));
      Variable y = experts[0](x) * narrow(share, -1, 0, 1);
      for (std::size_t i = 1; i < experts.size(); ++i)
        y = y + experts[i](x) * narrow(share, -1, static_cast<std::int64_t>(i), 1);
      return {(*tap)(x + y), share};
    }
  };
  struct Net : nn::Module {
    nn::Linear in, out;
    Experts layer;
    explicit Net(Tap* tap) : in({.in = 6, .out = 8}), out({.in = 8, .out = 2}), layer(tap) {}
    void visit(nn::Visitor& v) override {
      v("in", in);
      v("layer", layer);
      v("out", out);
    }
    std::pair<Variable, Variable> operator()(const Variable& x) {
      const nn::ModuleScope scope(*this);
      const auto [h, share] = layer(in(x));
      return {out(h), share};
    }
  } model;
  explicit ExpertsTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "layer"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 6}, {}, reading)
        .add("y", {n, 2}, {}, wave)
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const auto [y, share] = model(b["x"]);
    return nn::mse(outer(y), b["y"]) + sum(square(mean(share, {0}))) * 0.03;
  }
};

/// Solves u'' = -u on points of a line, with central differences. Each batch stacks the points, and their left and
/// right neighbors.
struct PinnTask : Task {
  static constexpr double kStep = 0.2;
  struct Net : nn::Module {
    nn::Linear in, middle, out;
    Tap* tap;
    explicit Net(Tap* t) : in({.in = 1, .out = 16}), middle({.in = 16, .out = 16}), out({.in = 16, .out = 1}), tap(t) {}
    void visit(nn::Visitor& v) override {
      v("in", in);
      v("middle", middle);
      v("out", out);
    }
    Variable forward(const Variable& x) override { return out((*tap)(tanh(middle(tanh(in(x)))))); }
  } model;
  explicit PinnTask(const TaskOptions& o) : Task(o), model(&inner) {}
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const Layout views{.axis = 0, .views = 3};
    const auto place = [](const Sample& s, std::int64_t k) {
      return 3 * s.latent() + kStep * static_cast<double>(k - 1);
    };
    return b.add("x", {3 * n, 1}, views, place)
        .add("y", {n, 1}, {}, [](const Sample& s, std::int64_t) { return std::sin(3 * s.latent()); })
        .gate("gate", {3 * n, 1}, views)
        .gate("gate_out", {3 * n, 1}, views)
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable u = cast(outer(model(b["x"])), b["x"].dtype());
    const std::int64_t n = u.dim(0) / 3;
    const Variable left = narrow(u, 0, 0, n), here = narrow(u, 0, n, n), right = narrow(u, 0, 2 * n, n);
    const Variable residual = (left - here * 2.0 + right) / (kStep * kStep) + here;
    return mean(square(residual)) * 0.1 + nn::mse(here, b["y"]);
  }
};

}  // namespace

std::vector<ModelEntry> decision_models() {
  return {{.name = "dqn", .make = make_task<DqnTask>, .input = "x"},
          {.name = "policy-gradient", .make = make_task<PolicyGradientTask>, .input = "x"},
          {.name = "experts", .make = make_task<ExpertsTask>, .input = "x", .target = "y"},
          {.name = "pinn", .make = make_task<PinnTask>, .input = "x", .target = "y"}};
}

}  // namespace binade::truth
