#include "tests/truth/models/models.h"

/// Convolutional models on images (N, H, W, C): LeNet, a residual network with batch norm, a small U-Net.
namespace binade::truth {

namespace {

double pixel(const Sample& s, std::int64_t k) {
  return 0.5 + 0.4 * s.latent() * ((k / 3) % 2 == 0 ? 1 : -1) + 0.1 * s.normal(1, k);
}
double label4(const Sample& s, std::int64_t) { return static_cast<double>(s.label(4)); }

struct Features : nn::Module {
  nn::Conv2d conv1, conv2;
  Tap* tap;
  explicit Features(Tap* t)
      : conv1({.in = 1, .out = 6, .kernel = 3, .padding = 1}), conv2({.in = 6, .out = 8, .kernel = 3}), tap(t) {}
  void visit(nn::Visitor& v) override {
    v("conv1", conv1);
    v("conv2", conv2);
  }
  Variable forward(const Variable& x) override { return max_pool2d((*tap)(relu(conv2(max_pool2d(relu(conv1(x))))))); }
};

struct LenetTask : Task {
  struct Net : nn::Module {
    Features features;
    nn::Linear fc1, fc2;
    std::unique_ptr<nn::Linear> spare;
    Net(Tap* tap, bool with_spare)
        : features(tap), fc1({.in = 8 * 2 * 2, .out = 24, .activation = Activation::kRelu}), fc2({.in = 24, .out = 4}) {
      if (with_spare) spare = std::make_unique<nn::Linear>(nn::LinearOptions{.in = 24, .out = 4});
    }
    void visit(nn::Visitor& v) override {
      v("features", features);
      v("fc1", fc1);
      v("fc2", fc2);
      if (spare) v("spare", *spare);
    }
    Variable forward(const Variable& x) override { return fc2(fc1(flatten(features(x)))); }
  } model;
  explicit LenetTask(const TaskOptions& o) : Task(o), model(&inner, o.spare_layer) { inner_path = "features"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 12, 12, 1}, {}, pixel)
        .add("y", {n}, {}, label4, DType::i32)
        .gate("gate", {n, 1, 1, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    return nn::cross_entropy(outer(model(b["x"])), b["y"], {.label_smoothing = 0.05});
  }
};

struct BasicBlock : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  Tap* tap;
  BasicBlock(std::int64_t c, Tap* t)
      : conv1({.in = c, .out = c, .padding = 1, .bias = false}),
        conv2({.in = c, .out = c, .padding = 1, .bias = false}),
        bn1({.channels = c, .relu = true}),
        bn2({.channels = c}),
        tap(t) {}
  void visit(nn::Visitor& v) override {
    v("conv1", conv1);
    v("bn1", bn1);
    v("conv2", conv2);
    v("bn2", bn2);
  }
  Variable forward(const Variable& x) override { return relu(x + (*tap)(bn2(conv2(bn1(conv1(x)))))); }
};

struct ResnetTask : Task {
  struct Net : nn::Module {
    nn::Conv2d stem;
    BasicBlock layer1;
    nn::Linear fc;
    explicit Net(Tap* tap)
        : stem({.in = 3, .out = 6, .stride = 2, .padding = 1}), layer1(6, tap), fc({.in = 6, .out = 4}) {}
    void visit(nn::Visitor& v) override {
      v("stem", stem);
      v("layer1", layer1);
      v("fc", fc);
    }
    Variable forward(const Variable& x) override { return fc(mean(layer1(relu(stem(x))), {1, 2})); }
  } model;
  explicit ResnetTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "layer1"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 10, 10, 3}, {}, pixel)
        .add("y", {n}, {}, label4, DType::i64)
        .gate("gate", {n, 1, 1, 1})
        .gate("gate_out", {n, 1})
        .take();
  }
  Variable loss(const Batch& b) override { return nn::cross_entropy(outer(model(b["x"])), b["y"]); }
};

struct Bottleneck : nn::Module {
  nn::Conv2d conv;
  nn::GroupNorm norm;
  Tap* tap;
  explicit Bottleneck(Tap* t) : conv({.in = 6, .out = 12, .padding = 1}), norm({.groups = 3, .channels = 12}), tap(t) {}
  void visit(nn::Visitor& v) override {
    v("conv", conv);
    v("norm", norm);
  }
  Variable forward(const Variable& x) override { return (*tap)(silu(norm(conv(x)))); }
};

struct UnetTask : Task {
  struct Net : nn::Module {
    nn::Conv2d down;
    Bottleneck middle;
    nn::Conv2d up, out;
    explicit Net(Tap* tap)
        : down({.in = 1, .out = 6, .padding = 1}),
          middle(tap),
          up({.in = 18, .out = 8, .padding = 1}),
          out({.in = 8, .out = 1, .kernel = 1}) {}
    void visit(nn::Visitor& v) override {
      v("down", down);
      v("middle", middle);
      v("up", up);
      v("out", out);
    }
    Variable forward(const Variable& x) override {
      const Variable skip = relu(down(x));
      return out(relu(up(concat({upsample(middle(max_pool2d(skip)), 2), skip}))));
    }
  } model;
  explicit UnetTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "middle"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    return b.add("x", {n, 8, 8, 1}, {}, pixel)
        .add("y", {n, 8, 8, 1}, {},
             [](const Sample& s, std::int64_t k) { return s.latent() * ((k / 3) % 2 == 0 ? 1 : -1) > 0 ? 1.0 : 0.0; })
        .gate("gate", {n, 1, 1, 1})
        .gate("gate_out", {n, 1, 1, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    const Variable z = outer(model(b["x"]));
    return nn::bce_with_logits(z, b["y"]) + nn::dice(sigmoid(z), b["y"]);
  }
};

}  // namespace

std::vector<ModelEntry> image_models() {
  return {{.name = "lenet", .make = make_task<LenetTask>, .input = "x", .labels = "y", .classes = 4},
          {.name = "resnet", .make = make_task<ResnetTask>, .input = "x", .labels = "y", .classes = 4},
          {.name = "unet", .make = make_task<UnetTask>, .input = "x"}};
}

}  // namespace binade::truth
