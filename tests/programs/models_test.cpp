// Tests the example models with weights from other programs, and features that need a whole model.
#include <gtest/gtest.h>

#include <fstream>
#include <string_view>

#include "binade/core/backend.h"
#include "binade/io/exchange/name_maps/hf_gpt2.h"
#include "binade/io/exchange/name_maps/pytorch_unet.h"
#include "binade/io/exchange/safetensors.h"
#include "examples/transformer/gpt.h"
#include "examples/transformer/sampling.h"
#include "examples/unet/image_source.h"
#include "examples/unet/prediction.h"
#include "examples/unet/unet.h"
#include "tests/golden/golden_file.h"

namespace binade::examples {
namespace {

GptOptions small_gpt() { return {.layers = 2, .heads = 2, .dim = 16, .context = 12, .vocabulary = 23, .table = 23}; }

Tensor tokens_of(std::int64_t rows, std::int64_t length, std::uint32_t which = 0) {
  const RandomStream numbers{5, RngPurpose::kData, 0, 0, which};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows * length));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(numbers.below(i, 23));
  return Tensor::from(tokens, {rows, length});
}

void load(nn::Module& model, const io::TensorMap& tensors) {
  StateDict state;
  for (const auto& [name, tensor] : tensors) state.put(name, tensor);
  for (const auto& [name, buffer] : nn::named_buffers(model))
    if (!state.contains(name)) state.put(name, buffer->value());  // the name map drops PyTorch's num_batches_tracked
  nn::load_state_dict(model, state);
}

/// The tensors of a safetensors file stored as base64 text.
io::TensorMap fixture(const std::string& name) {
  std::ifstream in(golden::folder() + "/" + name + ".safetensors.b64");
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int have = 0;
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (char c = 0; in.get(c);) {
    const std::size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) continue;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((have += 6) >= 8) bytes.push_back(static_cast<std::byte>(bits >> (have -= 8)));
  }
  return io::decode_safetensors(bytes).tensors;
}

const golden::Case& case_of(const std::vector<golden::Case>& cases, const std::string& name) {
  for (const golden::Case& c : cases)
    if (c.name == name) return c;
  throw std::runtime_error("no golden case " + name);
}

// ---- sampling

TEST(Sampling, CacheOnAndOffGiveTheSameTokensAlsoBeyondTheContext) {
  Runtime runtime({.seed = 3});
  Gpt model(small_gpt());
  model.eval();
  for (const double temperature : {0.0, 1.0}) {
    SamplingOptions options{.tokens = 40, .temperature = temperature, .top_k = 7, .seed = 9};
    const auto with = sample(model, {1, 2, 3}, options);
    options.cache = false;
    EXPECT_EQ(with, sample(model, {1, 2, 3}, options)) << "temperature " << temperature;
    EXPECT_EQ(with.size(), 43u);
  }
}

TEST(Sampling, DrawsFollowTheDistribution) {
  const std::vector<float> logits{0, std::log(2.0f), std::log(5.0f), -INFINITY};
  EXPECT_EQ(draw_token(logits, 0, 0, 0.99), 2);
  EXPECT_EQ(draw_token(logits, 1, 0, 0.0), 2);    // tokens in descending order of probability: [0, 5/8) is token 2
  EXPECT_EQ(draw_token(logits, 1, 0, 0.626), 1);  // [5/8, 7/8) is token 1
  EXPECT_EQ(draw_token(logits, 1, 0, 0.876), 0);
  EXPECT_EQ(draw_token(logits, 1, 1, 0.999), 2);
  EXPECT_EQ(draw_token(logits, 1, 0, 0.9999999), 0);
  EXPECT_THROW(draw_token({NAN, NAN}, 1, 0, 0.5), NumericError);
}

// ---- weights of other programs

class ForeignGpt : public ::testing::TestWithParam<const char*> {};

TEST_P(ForeignGpt, GivesTheLogitsOfTransformers) {
  const auto cases = golden::read(golden::folder() + "/imports.txt");
  const golden::Case& c = case_of(cases, GetParam());
  Runtime runtime({.seed = 1});
  const io::TensorMap tensors = io::gpt2_from_hugging_face(fixture(GetParam()));
  const Shape table = tensors.at("tokens.weight").shape();
  Gpt model({.layers = c.integer("layers"),
             .heads = c.integer("heads"),
             .dim = table.dim(1),
             .context = tensors.at("positions.weight").dim(0),
             .vocabulary = table.dim(0),
             .table = table.dim(0),
             .tanh_gelu = true});
  load(model, tensors);
  model.eval();
  const Variable logits = model(c.array("in.tokens").tensor(DType::i32));
  // The package transformers computed the expected logits in double from the same f32 weights.
  EXPECT_EQ(golden::difference(logits.value(), c.array("out.logits"), {.rtol = 1e-4, .share = 1e-5}), "");
}
INSTANTIATE_TEST_SUITE_P(Fixtures, ForeignGpt, ::testing::Values("gpt2_lm", "gpt2_hub"));

TEST(ForeignUNet, GivesTheOutputOfPyTorch) {
  const auto cases = golden::read(golden::folder() + "/imports.txt");
  const golden::Case& c = case_of(cases, "unet_torch");
  Runtime runtime({.seed = 1});
  UNet model({.in = 1, .classes = 1, .base = 4, .depth = 2});
  load(model, io::unet_from_pytorch(fixture("unet_torch")));
  model.eval();
  const Variable y = model(c.array("in.x").tensor(DType::f32));
  EXPECT_EQ(golden::difference(y.value(), c.array("out.y"), {.rtol = 1e-4, .share = 1e-5}), "");
}

// ---- recompute

/// State hash after three steps in fp16 with dropout.
std::string trained_hash(bool recompute) {
  Runtime runtime({.seed = 2});
  GptOptions options = small_gpt();
  options.dropout = 0.2;
  options.recompute = recompute;
  Gpt model(options);
  optim::AdamW optimizer(model, {.lr = 1e-2});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = amp::Policy::fp16(), .clip_norm = 1});
  for (std::uint32_t step = 0; step < 3; ++step)
    trainer.step(tokens_of(4, 12, step), [&](const Tensor& t) { return nn::cross_entropy(model(t), t); });
  return trainer.state_hash();
}

TEST(Recompute, OnAndOffGiveTheSameBits) { EXPECT_EQ(trained_hash(true), trained_hash(false)); }

/// State hash and peak memory of a few steps of a U-Net.
std::pair<std::string, std::size_t> trained_unet(bool recompute) {
  Runtime runtime({.seed = 2});
  UNet model({.base = 4, .depth = 2, .recompute = recompute});
  optim::Adam optimizer(model, {.lr = 1e-3});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = amp::Policy::fp16(), .clip_norm = 1});
  for (int step = 0; step < 3; ++step)
    trainer.step(Tensor::full({2, 32, 32, 1}, 0.25 * step), [&](const Tensor& x) {
      return bce_with_logits(model(x), Tensor::full({2, 32, 32, 1}, 1));
    });
  return {trainer.state_hash(), backend_of(Device::cpu()).bytes_peak()};
}

TEST(Recompute, AUNetHasTheSameBitsForLessMemory) {
  const auto [hash, peak] = trained_unet(true);
  const auto [kept_hash, kept_peak] = trained_unet(false);
  EXPECT_EQ(hash, kept_hash);
  EXPECT_LT(peak, kept_peak);
}

// ---- initial logits of a U-Net

/// Masks of 32 x 32 pixels with the given number of pixels of each class.
io::ImageSet masks_of(const std::vector<std::int64_t>& pixels) {
  std::vector<std::uint8_t> ids;
  for (std::size_t id = 0; id < pixels.size(); ++id)
    ids.insert(ids.end(), static_cast<std::size_t>(pixels[id]), static_cast<std::uint8_t>(id));
  io::ImageSet set;
  set.samples.resize(1);
  set.samples[0].pair.mask = Tensor::from(ids, {32, 32});
  return set;
}

Tensor random_images(std::uint64_t seed) {
  const RandomStream numbers{.seed = seed, .purpose = RngPurpose::kData};
  std::vector<float> values(2 * 32 * 32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(numbers.normal(i));
  return Tensor::from(values, {2, 32, 32, 1});
}

TEST(UNetStart, ThePriorIsTheLogOddsOfTheForegroundOrTheLogShareOfEachClass) {
  const std::vector<double> one = prior_logits(masks_of({954, 70}), 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_DOUBLE_EQ(one[0], std::log(71.0 / 955.0));
  const std::vector<double> four = prior_logits(masks_of({900, 24, 100}), 4);
  const double counted[] = {901, 25, 101, 1};  // a class that does not occur still has a finite logit
  ASSERT_EQ(four.size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) EXPECT_DOUBLE_EQ(four[k], std::log(counted[k] / 1028.0));
  EXPECT_THROW(prior_logits(masks_of({900, 74, 50}), 1), DataError);
}

// With a He-normal head and biases of 0, the mean first logit would vary between seeds with a standard deviation
// of 1.4.
TEST(UNetStart, TheFirstLogitsAreAtThePriorForEverySeed) {
  for (const std::int64_t classes : {1, 3}) {
    const io::ImageSet masks = classes == 1 ? masks_of({900, 124}) : masks_of({900, 74, 50});
    const std::vector<double> prior = prior_logits(masks, classes);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      Runtime runtime({.seed = seed});
      UNet model({.classes = classes, .base = 8, .depth = 3});
      model.start_at(prior);
      const std::vector<float> logits = model(random_images(seed)).value().to_vector<float>();
      std::vector<double> mean(prior.size(), 0);
      for (std::size_t i = 0; i < logits.size(); ++i) mean[i % mean.size()] += logits[i] / (2 * 32 * 32);
      for (std::size_t k = 0; k < mean.size(); ++k)
        EXPECT_NEAR(mean[k], prior[k], 0.35) << "class " << k << " of " << classes << ", seed " << seed;
    }
  }
}

TEST(UNetStart, APriorOfAnotherLengthIsRefused) {
  Runtime runtime({.seed = 1});
  UNet model({.classes = 3, .base = 4, .depth = 1});
  EXPECT_THROW(model.start_at(std::vector<double>{-2}), ShapeError);
}

// ---- images of any size

TEST(UNetPrediction, AnyImageSizeWorks) {
  Runtime runtime({.seed = 1});
  UNet model({.in = 1, .classes = 2, .base = 4, .depth = 3});
  model.eval();
  for (const auto& [h, w] : {std::pair{1, 1}, {7, 33}, {16, 8}}) {
    const Tensor logits = predict_logits(model, Tensor::full({1, h, w, 1}, 0.5));
    EXPECT_EQ(logits.shape(), Shape({1, h, w, 2}));
    EXPECT_EQ(classes_of(logits).shape(), Shape({1, h, w}));
  }
}

TEST(Overlap, DiceAndIouOfSmallMasks) {
  const auto mask = [](std::vector<std::uint8_t> v) { return Tensor::from(v, {static_cast<std::int64_t>(v.size())}); };
  Overlap overlap;
  EXPECT_EQ(overlap.dice(), 1.0);
  overlap.add(mask({1, 1, 0, 0}), mask({1, 0, 1, 0}));
  EXPECT_DOUBLE_EQ(overlap.dice(), 0.5);
  EXPECT_DOUBLE_EQ(overlap.iou(), 1.0 / 3);
  overlap.add(mask({1}), mask({1}));  // pixel counts are summed over images; the Dice scores are not averaged
  EXPECT_DOUBLE_EQ(overlap.dice(), 4.0 / 6);
}

}  // namespace
}  // namespace binade::examples
