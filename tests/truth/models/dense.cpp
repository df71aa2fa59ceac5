#include "tests/truth/models/models.h"

/// Fully connected models: a regression with a running mean in a buffer, an autoencoder, a classifier with focal loss,
/// a distilled student.
namespace binade::truth {

namespace {

/// A linear layer with layer norm. It subtracts a running mean of its activations.
struct Centered : nn::Module {
  nn::Linear in;
  nn::LayerNorm norm;
  nn::Buffer center;
  Tap* tap;

  Centered(std::int64_t from, std::int64_t to, Tap* t)
      : in({.in = from, .out = to}), norm({.dim = to}), center(Tensor::zeros({to})), tap(t) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("norm", norm);
    v("center", center);
  }
  Variable forward(const Variable& x) override {
    const Variable h = norm(in(x));
    if (training()) move(h.value());
    return (*tap)(gelu(h - cast(Variable(center.value()), h.dtype())));
  }
  void move(const Tensor& h) {
    const std::vector<float> values = h.to_vector<float>();
    const std::int64_t width = h.shape().cols(), rows = h.shape().rows();
    float* c = center.writable().mutable_data<float>();
    for (std::int64_t i = 0; i < width; ++i) {
      float sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += values[static_cast<std::size_t>(r * width + i)];
      c[i] += 0.05f * (sum / static_cast<float>(rows) - c[i]);
    }
  }
};

struct MlpNet : nn::Module {
  Centered body;
  nn::Linear head;
  std::unique_ptr<nn::Linear> spare;
  MlpNet(Tap* tap, bool with_spare) : body(6, 24, tap), head({.in = 24, .out = 2}) {
    if (with_spare) spare = std::make_unique<nn::Linear>(nn::LinearOptions{.in = 24, .out = 4});
  }
  void visit(nn::Visitor& v) override {
    v("body", body);
    v("head", head);
    if (spare) v("spare", *spare);
  }
  Variable forward(const Variable& x) override { return head(body(x)); }
};

struct MlpTask : Task {
  MlpNet model;
  explicit MlpTask(const TaskOptions& o) : Task(o), model(&inner, o.spare_layer) { inner_path = "body"; }
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
  Variable loss(const Batch& b) override { return nn::mse(outer(model(b["x"])), b["y"]); }
};

struct Coder : nn::Module {
  nn::Linear first, second;
  Tap* tap;
  Coder(std::int64_t from, std::int64_t hidden, std::int64_t to, Tap* t)
      : first({.in = from, .out = hidden}), second({.in = hidden, .out = to}), tap(t) {}
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
  }
  Variable forward(const Variable& x) override {
    const Variable y = second(silu(first(x)));
    return tap != nullptr ? (*tap)(y) : y;
  }
};

struct AutoencoderNet : nn::Module {
  Coder encoder, decoder;
  explicit AutoencoderNet(Tap* tap) : encoder(12, 16, 4, tap), decoder(4, 16, 12, nullptr) {}
  void visit(nn::Visitor& v) override {
    v("encoder", encoder);
    v("decoder", decoder);
  }
  Variable forward(const Variable& x) override { return decoder(encoder(x)); }
};

struct AutoencoderTask : Task {
  AutoencoderNet model;
  explicit AutoencoderTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "encoder"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 12}, {}, reading).gate("gate", {n, 1}).gate("gate_out", {n, 1}).take();
  }
  Variable loss(const Batch& b) override { return nn::l1(outer(model(b["x"])), b["x"]); }
};

/// Focal loss (Lin et al., 2017), in the form of torchvision's sigmoid_focal_loss.
struct FocalTask : Task {
  struct Net : nn::Module {
    Coder trunk;
    nn::Linear head;
    explicit Net(Tap* tap) : trunk(8, 24, 16, tap), head({.in = 16, .out = 1}) {}
    void visit(nn::Visitor& v) override {
      v("trunk", trunk);
      v("head", head);
    }
    Variable forward(const Variable& x) override { return head(relu(trunk(x))); }
  } model;
  explicit FocalTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "trunk"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 8}, {}, reading)
        .add("y", {n, 1}, {}, [](const Sample& s, std::int64_t) { return s.latent() > 0.6 ? 1.0 : 0.0; })
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable z = outer(model(b["x"])), t(b["y"]);
    const Variable ce = softplus(z) - z * t;
    return mean(pow(1.0 - exp(-ce), 2) * ce);
  }
};

/// A student that learns from the labels and from a teacher outside of the trained model.
struct DistillTask : Task {
  Coder model, teacher;
  explicit DistillTask(const TaskOptions& o) : Task(o), model(8, 16, 4, &inner), teacher(8, 32, 4, nullptr) {
    inner_path = "";
  }
  nn::Module& net() override { return model; }
  nn::Module* outside() override { return &teacher; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 8}, {}, reading)
        .add(
            "y", {n}, {}, [](const Sample& s, std::int64_t) { return static_cast<double>(s.label(4)); }, DType::i32)
        .gate("gate", {n, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable taught = softmax(teacher(b["x"])).detach();
    const Variable z = outer(model(b["x"]));
    return nn::kl_div(log_softmax(z), taught, Reduction::kBatchMean) + nn::cross_entropy(z, b["y"]) * 0.5;
  }
};

}  // namespace

std::vector<ModelEntry> dense_models() {
  return {{.name = "mlp", .make = make_task<MlpTask>, .input = "x", .target = "y"},
          {.name = "autoencoder", .make = make_task<AutoencoderTask>, .input = "x"},
          {.name = "focal", .make = make_task<FocalTask>, .input = "x"},
          {.name = "distill", .make = make_task<DistillTask>, .input = "x", .labels = "y", .classes = 4}};
}

}  // namespace binade::truth
