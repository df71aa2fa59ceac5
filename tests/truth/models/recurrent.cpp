#include "tests/truth/models/models.h"

/// Recurrent models with the time axis first (T, B, D) and cells written with single ops: an Elman network that
/// regresses from its last state, and a GRU that predicts the next symbol at every step.
namespace binade::truth {

namespace {

constexpr std::int64_t kSteps = 10, kInputs = 4, kWidth = 12;

Variable at_step(const Variable& x, std::int64_t t) { return reshape(narrow(x, 0, t, 1), {x.dim(1), x.dim(2)}); }
Variable as_step(const Variable& h) { return reshape(h, {1, h.dim(0), h.dim(1)}); }
Tensor uniform(const Shape& shape, double bound) {
  const RandomStream numbers = Runtime::current().next_init_stream();
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(bound * (2 * numbers.uniform(i) - 1));
  return Tensor::from(values, shape);
}

struct ElmanCell : nn::Module {
  nn::Parameter wx{uniform({kInputs, kWidth}, 0.4)}, wh{uniform({kWidth, kWidth}, 0.25)}, b{Tensor::zeros({kWidth})};
  bool linear;
  explicit ElmanCell(bool linear_recurrence) : linear(linear_recurrence) {}
  void visit(nn::Visitor& v) override {
    v("wx", wx);
    v("wh", wh);
    v("b", b);
  }
  /// All states, (T, B, width).
  Variable forward(const Variable& x) override {
    std::vector<Variable> states;
    Variable h(Tensor::zeros({x.dim(1), kWidth}, x.dtype()));
    for (std::int64_t t = 0; t < x.dim(0); ++t) {
      h = matmul(at_step(x, t), wx) + matmul(h, wh) + b;
      if (!linear) h = tanh(h);
      states.push_back(as_step(h));
    }
    return concat(states, 0);
  }
};

struct Decoder : nn::Module {
  nn::Linear out;
  Tap* tap;
  Decoder(std::int64_t outputs, Tap* t) : out({.in = kWidth, .out = outputs}), tap(t) {}
  void visit(nn::Visitor& v) override { v("out", out); }
  Variable forward(const Variable& states) override { return out((*tap)(states)); }
};

struct RnnTask : Task {
  struct Net : nn::Module {
    ElmanCell cell;
    Decoder decoder;
    Net(Tap* tap, bool linear) : cell(linear), decoder(2, tap) {}
    void visit(nn::Visitor& v) override {
      v("cell", cell);
      v("decoder", decoder);
    }
    Variable forward(const Variable& x) override { return decoder(cell(x)); }
  } model;
  explicit RnnTask(const TaskOptions& o) : Task(o), model(&inner, o.linear_recurrence) { inner_path = "decoder"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {kSteps, n, kInputs}, {.axis = 1}, reading)
        .add("y", {1, n, 2}, {.axis = 1}, wave)
        .gate("gate", {1, n, 1}, {.axis = 1})
        .gate("gate_out", {1, n, 1}, {.axis = 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable all = outer(model(b["x"]));
    return nn::mse(narrow(all, 0, all.dim(0) - 1, 1), b["y"]);
  }
};

struct GruCell : nn::Module {
  nn::Linear gates_x, gates_h, candidate_x, candidate_h;
  GruCell()
      : gates_x({.in = kInputs, .out = 2 * kWidth}),
        gates_h({.in = kWidth, .out = 2 * kWidth, .bias = false}),
        candidate_x({.in = kInputs, .out = kWidth}),
        candidate_h({.in = kWidth, .out = kWidth, .bias = false}) {}
  void visit(nn::Visitor& v) override {
    v("gates_x", gates_x);
    v("gates_h", gates_h);
    v("candidate_x", candidate_x);
    v("candidate_h", candidate_h);
  }
  Variable forward(const Variable& x) override {
    std::vector<Variable> states;
    Variable h(Tensor::zeros({x.dim(1), kWidth}, x.dtype()));
    for (std::int64_t t = 0; t < x.dim(0); ++t) {
      const Variable now = at_step(x, t);
      const Variable gates = sigmoid(gates_x(now) + gates_h(h));
      const Variable reset = narrow(gates, -1, 0, kWidth), update = narrow(gates, -1, kWidth, kWidth);
      h = (1.0 - update) * tanh(candidate_x(now) + reset * candidate_h(h)) + update * h;
      states.push_back(as_step(h));
    }
    return concat(states, 0);
  }
};

struct GruTask : Task {
  static constexpr std::int64_t kClasses = 5;
  struct Net : nn::Module {
    GruCell cell;
    Decoder decoder;
    explicit Net(Tap* tap) : decoder(kClasses, tap) {}
    void visit(nn::Visitor& v) override {
      v("cell", cell);
      v("decoder", decoder);
    }
    Variable forward(const Variable& x) override { return decoder(cell(x)); }
  } model;
  explicit GruTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "decoder"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const auto symbol = [](const Sample& s, std::int64_t k) {
      return static_cast<double>((s.label(kClasses) + k) % kClasses);
    };
    return b.add("x", {kSteps, n, kInputs}, {.axis = 1}, reading)
        .add("y", {kSteps * n}, {.axis = 0, .views = kSteps}, symbol, DType::i32)
        .gate("gate", {1, n, 1}, {.axis = 1})
        .gate("gate_out", {1, n, 1}, {.axis = 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable z = outer(model(b["x"]));
    return nn::cross_entropy(reshape(z, {-1, kClasses}), b["y"]);
  }
};

}  // namespace

std::vector<ModelEntry> recurrent_models() {
  return {{.name = "rnn", .make = make_task<RnnTask>, .input = "x", .target = "y"},
          {.name = "gru", .make = make_task<GruTask>, .input = "x", .labels = "y", .classes = GruTask::kClasses}};
}

}  // namespace binade::truth
