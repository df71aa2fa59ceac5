// 3. Modules: the parts of a model, named in visit(). A small network learns to separate two spirals.
#include <binade.h>

#include <cmath>
#include <cstdio>

using namespace binade;

struct Classifier : nn::Module {  // maps x (B, 2) to logits (B, 2)
  nn::Linear in, middle, out;

  Classifier() : in({.in = 2, .out = 64}), middle({.in = 64, .out = 64}), out({.in = 64, .out = 2}) {}

  void visit(nn::Visitor& v) override {
    v("in", in);
    v("middle", middle);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(relu(middle(relu(in(x))))); }
};

struct Spirals {
  Tensor points, labels;
};

Spirals two_spirals(int count) {
  std::vector<float> points;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < count; ++i) {
    const int label = i % 2;
    const float t = 0.3f + 9.0f * static_cast<float>(i) / static_cast<float>(count);
    const float angle = t + 3.14159265f * static_cast<float>(label);
    points.push_back(t * std::cos(angle) / 9);
    points.push_back(t * std::sin(angle) / 9);
    labels.push_back(label);
  }
  return {Tensor::from(points, {count, 2}), Tensor::from(labels, {count})};
}

int main() {
  Runtime runtime({.seed = 1});
  Classifier model;
  optim::AdamW optimizer(model, {.lr = 1e-2, .weight_decay = 0});
  const Spirals data = two_spirals(400);

  // The parameters by path: the names that checkpoints, messages and precision overrides use.
  for (const auto& [name, parameter] : nn::named_parameters(model))
    std::printf("%-14s %s\n", name.c_str(), parameter->shape().to_string().c_str());

  for (int step = 1; step <= 400; ++step) {
    optimizer.zero_grad();
    const Variable loss = nn::cross_entropy(model(data.points), data.labels);
    backward(loss);
    optimizer.step();
    if (step % 100 == 0) std::printf("step %3d  loss %.4f\n", step, loss.item());
  }
}
