#include "tests/resume/families.h"

#include <cmath>

#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"
#include "tests/resume/user_module.h"

namespace binade::resume {

namespace {

/// Values in [-1, 1) that depend on the sample ids alone: (samples, dims…).
Tensor values_of(std::span<const std::int64_t> samples, std::vector<std::int64_t> dims) {
  dims.insert(dims.begin(), static_cast<std::int64_t>(samples.size()));
  const Shape shape(dims);
  std::vector<float> values;
  const std::int64_t each = samples.empty() ? 0 : shape.numel() / static_cast<std::int64_t>(samples.size());
  for (const std::int64_t sample : samples) {
    const RandomStream stream{7, RngPurpose::kData, 0, 0, static_cast<std::uint32_t>(sample)};
    for (std::int64_t i = 0; i < each; ++i) values.push_back(2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1);
  }
  return Tensor::from(values, shape);
}

/// An integer in [0, n) for each value.
std::vector<std::int32_t> tokens_of(const Tensor& values, std::int64_t n) {
  std::vector<std::int32_t> tokens;
  for (const float v : values.to_vector<float>())
    tokens.push_back(static_cast<std::int32_t>((v + 1) / 2 * static_cast<float>(n)));
  return tokens;
}

/// A class per row: 1 if the sum of the row is positive, else 0.
Tensor sign_of_rows(const Tensor& x) {
  std::vector<std::int32_t> classes;
  const std::int64_t each = x.numel() / x.dim(0);
  for (std::int64_t row = 0; row < x.dim(0); ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < each; ++i) sum += x.at(row * each + i);
    classes.push_back(sum > 0 ? 1 : 0);
  }
  return Tensor::from(classes, {x.dim(0)});
}

class Mlp final : public Family {
 public:
  nn::Module& model() override { return net_; }
  Variable loss(const Batch& b) override { return nn::cross_entropy(net_(b.x), b.y); }
  Batch make(std::span<const std::int64_t> samples) const override {
    Batch batch{values_of(samples, {24}), {}};
    batch.y = sign_of_rows(batch.x);
    return batch;
  }

 private:
  nn::Sequential net_{nn::Linear({.in = 24, .out = 192}), nn::Relu(), nn::Dropout({.p = 0.2}),
                      nn::Linear({.in = 192, .out = 96}), nn::Relu(), nn::Linear({.in = 96, .out = 4})};
};

class UNet final : public Family {
 public:
  nn::Module& model() override { return net_; }
  Variable loss(const Batch& b) override {
    const Variable logits = net_(b.x);
    return nn::bce_with_logits(logits, b.y) + nn::dice(logits, b.y);
  }
  Batch make(std::span<const std::int64_t> samples) const override {
    Batch batch{values_of(samples, {16, 16, 1}), {}};
    std::vector<float> mask;
    for (const float v : batch.x.to_vector<float>()) mask.push_back(v > 0.25f ? 1 : 0);
    batch.y = Tensor::from(mask, batch.x.shape());
    return batch;
  }

 private:
  examples::UNet net_{{.base = 4, .depth = 2}};
};

class Gpt final : public Family {
 public:
  nn::Module& model() override { return net_; }
  Variable loss(const Batch& b) override { return nn::cross_entropy(net_(b.x), b.y); }
  Batch make(std::span<const std::int64_t> samples) const override {
    const std::vector<std::int32_t> tokens = tokens_of(values_of(samples, {kContext + 1}), kVocabulary);
    std::vector<std::int32_t> now, next;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i % (kContext + 1) < kContext) now.push_back(tokens[i]);
      if (i % (kContext + 1) > 0) next.push_back(tokens[i]);
    }
    const Shape shape{static_cast<std::int64_t>(samples.size()), kContext};
    return {Tensor::from(now, shape), Tensor::from(next, shape)};
  }

 private:
  static constexpr std::int64_t kContext = 16, kVocabulary = 48;
  examples::Gpt net_{{.layers = 2,
                      .heads = 2,
                      .dim = 32,
                      .context = kContext,
                      .vocabulary = kVocabulary,
                      .table = 64,
                      .dropout = 0.1}};
};

/// Classifies token sequences: embedding, RMS norm with a residual, layer norm.
struct NormsNet : nn::Module {
  nn::Embedding words{{.count = 64, .dim = 48}};
  nn::RmsNorm first{{.dim = 48}};
  nn::Mlp mlp{{.dim = 48, .hidden = 96}};
  nn::LayerNorm second{{.dim = 48}};
  nn::Linear head{{.in = 48, .out = 5}};

  void visit(nn::Visitor& v) override {
    v("words", words);
    v("first", first);
    v("mlp", mlp);
    v("second", second);
    v("head", head);
  }
  Variable forward(const Variable& tokens) override {
    const Variable x = words(tokens);
    return head(mean(second(x + mlp(first(x))), {1}));
  }
};

class Norms final : public Family {
 public:
  nn::Module& model() override { return net_; }
  Variable loss(const Batch& b) override { return nn::cross_entropy(net_(b.x), b.y); }
  Batch make(std::span<const std::int64_t> samples) const override {
    const Tensor values = values_of(samples, {20});
    return {Tensor::from(tokens_of(values, 64), values.shape()), sign_of_rows(values)};
  }

 private:
  NormsNet net_;
};

class ConvNet final : public Family {
 public:
  nn::Module& model() override { return net_; }
  Variable loss(const Batch& b) override { return nn::cross_entropy(net_(b.x), b.y); }
  Batch make(std::span<const std::int64_t> samples) const override {
    Batch batch{values_of(samples, {16, 16, 2}), {}};
    batch.y = sign_of_rows(batch.x);
    return batch;
  }

 private:
  nn::Sequential net_{nn::Conv2d({.in = 2, .out = 16, .padding = 1}),
                      nn::GroupNorm({.groups = 4, .channels = 16, .relu = true}),
                      nn::MaxPool2d({.kernel = 2}),
                      nn::Conv2d({.in = 16, .out = 16, .padding = 1, .groups = 2}),
                      nn::Gelu(),
                      nn::AvgPool2d({.kernel = 2}),
                      nn::Flatten(),
                      nn::Linear({.in = 256, .out = 3})};
};

class User final : public Family {
 public:
  nn::Module& model() override { return net_; }
  Variable loss(const Batch& b) override { return nn::mse(net_(b.x), b.y); }
  Batch make(std::span<const std::int64_t> samples) const override {
    Batch batch{values_of(samples, {12}), {}};
    std::vector<float> target;
    for (std::int64_t row = 0; row < batch.x.dim(0); ++row)
      target.push_back(static_cast<float>(std::sin(3 * batch.x.at(12 * row)) * batch.x.at(12 * row + 1)));
    batch.y = Tensor::from(target, {batch.x.dim(0), 1});
    return batch;
  }

 private:
  UserNet net_;
};

template <class F>
FamilyKind kind(const char* name, bool real_input, const char* product) {
  return {name, [] { return std::make_unique<F>(); }, real_input, product};
}

}  // namespace

const std::vector<FamilyKind>& families() {
  static const std::vector<FamilyKind> all = {kind<Mlp>("mlp", true, "3"),
                                              kind<UNet>("unet", true, "encoder.1.conv2"),
                                              kind<Gpt>("gpt", false, "blocks.0.mlp.up"),
                                              kind<Norms>("norms", false, "mlp.up"),
                                              kind<ConvNet>("convnet", true, "3"),
                                              kind<User>("user", true, "first")};
  return all;
}

}  // namespace binade::resume
