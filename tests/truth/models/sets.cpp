#include <cmath>

#include "tests/truth/models/models.h"

/// Models of sets and tables: a point net on flattened points, a graph convolution, a recommender.
namespace binade::truth {

namespace {

double label3(const Sample& s, std::int64_t) { return static_cast<double>(s.label(3)); }

/// Qi et al., 2017. The points of all samples are in one list (B P, 3). Each feature is the maximum over a sample's
/// points.
struct PointTask : Task {
  static constexpr std::int64_t kPoints = 9;
  struct Local : nn::Module {
    nn::Linear first, second;
    Tap* tap;
    explicit Local(Tap* t)
        : first({.in = 3, .out = 16, .activation = Activation::kRelu}), second({.in = 16, .out = 16}), tap(t) {}
    void visit(nn::Visitor& v) override {
      v("first", first);
      v("second", second);
    }
    Variable forward(const Variable& x) override { return second((*tap)(first(x))); }
  };
  struct Net : nn::Module {
    Local local;
    nn::Linear head;
    explicit Net(Tap* tap) : local(tap), head({.in = 16, .out = 3}) {}
    void visit(nn::Visitor& v) override {
      v("local", local);
      v("head", head);
    }
    Variable forward(const Variable& x) override {
      return head(max(reshape(local(x), {x.dim(0) / kPoints, kPoints, 16}), {1}));
    }
  } model;
  explicit PointTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "local"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const Layout points{.axis = 0, .parts = kPoints};
    const auto value = [](const Sample& s, std::int64_t k) {
      return (k % 3 == s.label(3) ? 1.5 : 0.5) * s.normal(1, k);
    };
    return b.add("x", {n * kPoints, 3}, points, value)
        .add("y", {n}, {}, label3, DType::i32)
        .gate("gate", {n * kPoints, 1}, points)
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override { return nn::cross_entropy(outer(model(b["x"])), b["y"]); }
};

/// Kipf and Welling, 2016. The model normalizes the rows of the adjacency matrix; a product with it averages neighbors.
struct GraphTask : Task {
  static constexpr std::int64_t kNodes = 6;
  struct Conv : nn::Module {
    nn::Linear mix;
    Tap* tap;
    Conv(std::int64_t from, std::int64_t to, Tap* t) : mix({.in = from, .out = to}), tap(t) {}
    void visit(nn::Visitor& v) override { v("mix", mix); }
    Variable operator()(const Variable& x, const Variable& edges) {
      const nn::ModuleScope scope(*this);
      Variable near = matmul(edges / sum(edges, {-1}, true), x);
      if (tap != nullptr) near = (*tap)(near);
      return relu(mix(near));
    }
  };
  struct Net : nn::Module {
    Conv conv1, conv2;
    nn::Linear head;
    explicit Net(Tap* tap) : conv1(4, 12, nullptr), conv2(12, 12, tap), head({.in = 12, .out = 3}) {}
    void visit(nn::Visitor& v) override {
      v("conv1", conv1);
      v("conv2", conv2);
      v("head", head);
    }
    Variable operator()(const Variable& x, const Variable& edges) {
      const nn::ModuleScope scope(*this);
      return head(mean(conv2(conv1(x, edges), edges), {1}));
    }
  } model;
  explicit GraphTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "conv2"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const auto edge = [](const Sample& s, std::int64_t k) {
      return k / kNodes == k % kNodes || s.uniform(30, k) < 0.4 ? 1.0 : 0.0;
    };
    return b.add("x", {n, kNodes, 4}, {}, reading)
        .add("edges", {n, kNodes, kNodes}, {}, edge)
        .add("y", {n}, {}, label3, DType::i32)
        .gate("gate", {n, 1, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override { return nn::cross_entropy(outer(model(b["x"], b["edges"])), b["y"]); }
};

/// Users and items by number; the answer is whether they match.
struct RecommenderTask : Task {
  static constexpr std::int64_t kUsers = 20, kItems = 30;
  struct Net : nn::Module {
    nn::Embedding users, items;
    nn::Linear deep, out;
    Tap* tap;
    explicit Net(Tap* t)
        : users({.count = kUsers, .dim = 8}),
          items({.count = kItems, .dim = 8}),
          deep({.in = 16, .out = 16, .activation = Activation::kRelu}),
          out({.in = 16, .out = 1}),
          tap(t) {}
    void visit(nn::Visitor& v) override {
      v("users", users);
      v("items", items);
      v("deep", deep);
      v("out", out);
    }
    Variable operator()(const Variable& user, const Variable& item) {
      const nn::ModuleScope scope(*this);
      const Variable u = users(user), i = items(item);
      return out((*tap)(deep(concat({u, i})))) + sum(u * i, {-1}, true) * 0.1;
    }
  } model;
  explicit RecommenderTask(const TaskOptions& o) : Task(o), model(&inner) {}
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b
        .add(
            "x", {n}, {}, [](const Sample& s, std::int64_t) { return static_cast<double>(s.label(kUsers)); },
            DType::i32)
        .add(
            "item", {n}, {}, [](const Sample& s, std::int64_t) { return std::floor(kItems * s.uniform(70, 0)); },
            DType::i64)
        .add("y", {n, 1}, {}, [](const Sample& s, std::int64_t) { return s.latent() > 0 ? 1.0 : 0.0; })
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override { return nn::bce_with_logits(outer(model(b["x"], b["item"])), b["y"]); }
};

}  // namespace

std::vector<ModelEntry> set_models() {
  return {{.name = "points", .make = make_task<PointTask>, .input = "x", .labels = "y", .classes = 3},
          {.name = "graph", .make = make_task<GraphTask>, .input = "x", .labels = "y", .classes = 3},
          {.name = "recommender", .make = make_task<RecommenderTask>, .tokens = "x", .rows = RecommenderTask::kUsers}};
}

}  // namespace binade::truth
