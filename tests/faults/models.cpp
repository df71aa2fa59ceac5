#include "tests/faults/models.h"

#include <cmath>

#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"

namespace binade::faults {
namespace {

constexpr std::int64_t kFeatures = 16, kHidden = 32, kClasses = 8;              // MLP
constexpr std::int64_t kTokens = 12, kVocabulary = 32, kDim = 32, kBlocks = 2;  // transformer
constexpr std::int64_t kImage = 16, kBase = 4;                                  // U-Net

constexpr Product kMlpProducts[] = {{"layers.0", "linear"}, {"layers.1", "linear"}, {"layers.2", "linear"}};
constexpr Product kGptProducts[] = {
    {"blocks.0.attention.value", "projections"}, {"blocks.0.attention.key", "projections"},
    {"blocks.0.attention.query", "projections"}, {"blocks.0.mlp.up", "linear"},
    {"blocks.1.attention.value", "projections"}, {"blocks.1.attention.key", "projections"},
    {"blocks.1.attention.query", "projections"}, {"blocks.1.mlp.up", "linear"}};
constexpr Product kUNetProducts[] = {{"encoder.0.conv1", "conv2d"}, {"encoder.0.conv2", "conv2d"},
                                     {"encoder.1.conv1", "conv2d"}, {"encoder.1.conv2", "conv2d"},
                                     {"middle.conv1", "conv2d"},    {"middle.conv2", "conv2d"},
                                     {"decoder.1.conv1", "conv2d"}, {"decoder.0.conv2", "conv2d"}};

/// features (B, 16) -> logits (B, 8): three linear layers, each with layer norm and ReLU.
struct SmallMlp final : Model {
  nn::ModuleList<nn::Linear> layers;
  nn::ModuleList<nn::LayerNorm> norms;
  nn::Linear head{{.in = kHidden, .out = kClasses}};

  SmallMlp() {
    for (int i = 0; i < kSites; ++i) {
      layers.emplace_back(nn::LinearOptions{.in = i == 0 ? kFeatures : kHidden, .out = kHidden});
      norms.emplace_back(nn::LayerNormOptions{.dim = kHidden});
    }
  }
  void visit(nn::Visitor& v) override {
    layers.visit("layers", v);
    norms.visit("norms", v);
    extra.visit("extra", v);
    v("head", head);
  }
  Variable forward(const Variable& features) override {
    Variable x = features;
    for (std::size_t i = 0; i < layers.size(); ++i) x = extra[i](relu(norms[i](layers[i](x))));
    return head(x);
  }
  Variable loss(const Variable& logits, const Tensor& y) const override { return nn::cross_entropy(logits, y); }
};

/// tokens (B, 12) -> logits (B, 12, 32): transformer blocks as in examples/gpt.
struct SmallGpt final : Model {
  nn::Embedding tokens{{.count = kVocabulary, .dim = kDim}}, positions{{.count = kTokens, .dim = kDim}};
  nn::ModuleList<examples::GptBlock> blocks;
  nn::LayerNorm norm{{.dim = kDim}};
  nn::Linear head{{.in = kDim, .out = kVocabulary}};

  explicit SmallGpt(bool composed) {
    for (std::int64_t i = 0; i < kBlocks; ++i)
      blocks.emplace_back(examples::GptOptions{.heads = 2, .dim = kDim, .context = kTokens, .composed = composed});
  }
  void visit(nn::Visitor& v) override {
    v("tokens", tokens);
    v("positions", positions);
    blocks.visit("blocks", v);
    extra.visit("extra", v);
    v("norm", norm);
    v("head", head);
  }
  Variable forward(const Variable& ids) override {
    std::vector<std::int32_t> places(static_cast<std::size_t>(kTokens));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
    Variable x = extra[0](tokens(ids) + positions(Tensor::from(places, {kTokens})));
    for (std::size_t i = 0; i < blocks.size(); ++i) x = extra[i + 1](blocks[i](x));
    return head(norm(x));
  }
  Variable loss(const Variable& logits, const Tensor& y) const override { return nn::cross_entropy(logits, y); }
};

/// images (B, 16, 16, 1) -> logits (B, 16, 16, 1): stages of a U-Net as in examples/unet.
struct SmallUNet final : Model {
  nn::ModuleList<examples::DoubleConv> encoder;
  examples::DoubleConv middle{2 * kBase, 4 * kBase};
  nn::ModuleList<examples::UpBlock> decoder;
  nn::Conv2d head{{.in = kBase, .out = 1, .kernel = 1}};

  SmallUNet() {
    for (const std::int64_t width : {kBase, 2 * kBase}) {
      encoder.emplace_back(width == kBase ? 1 : kBase, width);
      decoder.emplace_back(2 * width, width);
    }
  }
  void visit(nn::Visitor& v) override {
    encoder.visit("encoder", v);
    v("middle", middle);
    decoder.visit("decoder", v);
    extra.visit("extra", v);
    v("head", head);
  }
  Variable forward(const Variable& images) override {
    const Variable fine = extra[0](encoder[0](images));
    const Variable coarse = extra[1](encoder[1](max_pool2d(fine, {.kernel = 2})));
    const Variable x = extra[2](middle(max_pool2d(coarse, {.kernel = 2})));
    return head(decoder[0](decoder[1](x, coarse), fine));
  }
  Variable loss(const Variable& logits, const Tensor& y) const override { return nn::bce_with_logits(logits, y); }
};

RandomStream stream_of(std::uint64_t seed, std::int64_t id) {
  return {seed, RngPurpose::kData, static_cast<std::uint64_t>(id), 0, 0};
}

/// The class is the index of the largest of eight sums; each sum adds two features.
void fill_mlp(const RandomStream& random, std::int64_t row, Batch& b) {
  float* x = b.x.mutable_data<float>() + row * kFeatures;
  for (std::int64_t i = 0; i < kFeatures; ++i) x[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < kClasses; ++c)
    if (x[2 * c] + x[2 * c + 1] > x[2 * best] + x[2 * best + 1]) best = c;
  b.y.mutable_data<std::int64_t>()[row] = best;
}

/// Each token is the previous one plus a stride that is random per sample.
void fill_gpt(const RandomStream& random, std::int64_t row, Batch& b) {
  const std::int64_t start = static_cast<std::int64_t>(random.below(0, kVocabulary));
  const std::int64_t stride = 1 + static_cast<std::int64_t>(random.below(1, 3));
  for (std::int64_t t = 0; t < kTokens; ++t) {
    b.x.mutable_data<std::int64_t>()[row * kTokens + t] = (start + t * stride) % kVocabulary;
    b.y.mutable_data<std::int64_t>()[row * kTokens + t] = (start + (t + 1) * stride) % kVocabulary;
  }
}

/// A bright disc in noise; the mask is the disc.
void fill_unet(const RandomStream& random, std::int64_t row, Batch& b) {
  const float radius = 3 + 3 * random.uniform(0);
  const float cy = 4 + 8 * random.uniform(1), cx = 4 + 8 * random.uniform(2);
  for (std::int64_t i = 0; i < kImage * kImage; ++i) {
    const float dy = static_cast<float>(i / kImage) - cy, dx = static_cast<float>(i % kImage) - cx;
    const bool inside = dy * dy + dx * dx < radius * radius;
    const float noise = random.uniform(static_cast<std::uint64_t>(3 + i));
    b.x.mutable_data<float>()[row * kImage * kImage + i] = (inside ? 1.0f : 0.0f) + 0.5f * noise;
    b.y.mutable_data<float>()[row * kImage * kImage + i] = inside ? 1.0f : 0.0f;
  }
}

}  // namespace

std::string_view name_of(ModelKind kind) {
  return kind == ModelKind::kMlp ? "mlp" : kind == ModelKind::kGpt ? "gpt" : "unet";
}

std::span<const Product> products_of(ModelKind kind) {
  if (kind == ModelKind::kMlp) return kMlpProducts;
  return kind == ModelKind::kGpt ? std::span<const Product>(kGptProducts) : std::span<const Product>(kUNetProducts);
}

double peak_rate_of(ModelKind kind) { return kind == ModelKind::kMlp ? 2e-3 : 5e-3; }
std::int64_t rows_of(ModelKind kind) { return kind == ModelKind::kMlp ? 8 : 4; }

std::string Spot::to_string() const {
  return fmt::format("{} {} seed {} step {} row {} {}", name_of(model), precision, seed, step, row, site_path());
}

std::unique_ptr<Model> make_model(ModelKind kind, bool composed) {
  switch (kind) {
    case ModelKind::kMlp: return std::make_unique<SmallMlp>();
    case ModelKind::kGpt: return std::make_unique<SmallGpt>(composed);
    case ModelKind::kUNet: return std::make_unique<SmallUNet>();
  }
  return nullptr;
}

Batch make_batch(ModelKind kind, std::uint64_t seed, std::span<const std::int64_t> ids) {
  const auto rows = static_cast<std::int64_t>(ids.size());
  Batch b;
  switch (kind) {
    case ModelKind::kMlp: b = {Tensor::zeros({rows, kFeatures}), Tensor::zeros({rows}, DType::i64)}; break;
    case ModelKind::kGpt:
      b = {Tensor::zeros({rows, kTokens}, DType::i64), Tensor::zeros({rows, kTokens}, DType::i64)};
      break;
    case ModelKind::kUNet: b = {Tensor::zeros({rows, kImage, kImage, 1}), Tensor::zeros({rows, kImage, kImage, 1})};
  }
  const auto fill = kind == ModelKind::kMlp ? fill_mlp : kind == ModelKind::kGpt ? fill_gpt : fill_unet;
  for (std::int64_t row = 0; row < rows; ++row) fill(stream_of(seed, ids[static_cast<std::size_t>(row)]), row, b);
  return b;
}

}  // namespace binade::faults
