#include "tests/truth/models/models.h"

/// Metric learning on stacked views: a triplet loss, and a contrastive loss over pairs.
namespace binade::truth {

namespace {

struct Embedder : nn::Module {
  nn::Linear in, out;
  Tap* tap;
  Embedder(std::int64_t from, Tap* t) : in({.in = from, .out = 24}), out({.in = 24, .out = 8}), tap(t) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out((*tap)(relu(in(x)))); }
};

Variable unit_length(const Variable& x) { return x / sqrt(sum(square(x), {-1}, true) + 1e-6); }

/// Anchors, positives and negatives are stacked: (3 B, D). The loss of a triplet is 0 if its distances differ by at
/// least the margin.
struct TripletTask : Task {
  struct Net : nn::Module {
    Embedder embed;
    explicit Net(Tap* tap) : embed(5, tap) {}
    void visit(nn::Visitor& v) override { v("embed", embed); }
    Variable forward(const Variable& x) override { return unit_length(embed(x)); }
  } model;
  explicit TripletTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "embed"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const Layout views{.axis = 0, .views = 3};
    const auto value = [](const Sample& s, std::int64_t k) {
      const double center = k < 10 ? s.latent() : -s.latent();
      return center * (k % 2 == 0 ? 1 : -1) + 0.3 * s.normal(1, k);
    };
    return b.add("x", {3 * n, 5}, views, value)
        .gate("gate", {3 * n, 1}, views)
        .gate("gate_out", {3 * n, 1}, views)
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable e = outer(model(b["x"]));
    const std::int64_t n = e.dim(0) / 3;
    const Variable anchor = narrow(e, 0, 0, n);
    const auto distance = [&](std::int64_t view) { return sum(square(anchor - narrow(e, 0, view * n, n)), {-1}); };
    return mean(relu(distance(1) - distance(2) + 0.3));
  }
};

/// Two views of each sample. All views of other samples are negatives (van den Oord et al., 2018).
struct SiameseTask : Task {
  struct Net : nn::Module {
    Embedder embed;
    nn::RmsNorm norm;
    explicit Net(Tap* tap) : embed(6, tap), norm({.dim = 8}) {}
    void visit(nn::Visitor& v) override {
      v("embed", embed);
      v("norm", norm);
    }
    Variable forward(const Variable& x) override { return unit_length(norm(embed(x))); }
  } model;
  explicit SiameseTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "embed"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const Layout views{.axis = 0, .views = 2};
    const auto value = [](const Sample& s, std::int64_t k) { return s.normal(2, k % 6) + 0.2 * s.normal(1, k); };
    return b.add("x", {2 * n, 6}, views, value)
        .gate("gate", {2 * n, 1}, views)
        .gate("gate_out", {2 * n, 1}, views)
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable z = outer(model(b["x"]));
    const std::int64_t n = z.dim(0) / 2;
    std::vector<std::int32_t> same(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<std::int32_t>(i);
    const Variable logits = matmul(narrow(z, 0, 0, n), narrow(z, 0, n, n), {.transpose_b = true}) / 0.2;
    return nn::cross_entropy(logits, Tensor::from(same, {n}));
  }
};

}  // namespace

std::vector<ModelEntry> metric_models() {
  return {{.name = "triplet", .make = make_task<TripletTask>, .input = "x"},
          {.name = "siamese", .make = make_task<SiameseTask>, .input = "x"}};
}

}  // namespace binade::truth
