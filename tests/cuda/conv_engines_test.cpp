#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "binade/cuda/device/conv_graph.h"
#include "tests/cuda/conv_keys.h"
#include "tests/cuda/described_device.h"

// Tests which engines cuDNN proposes for the convolutions of the benchmark U-Net (base 64, depth 4, images of 512 x
// 512, 16 bits) on the description of an H100. Proposed engines can compute the graph; only compiling and running them
// needs a GPU. BINADE_PRINT_ENGINES=1 prints a line for each convolution (docs/performance-gpu.md).
namespace binade::cuda {
namespace {

struct Named {
  std::string name;
  ConvKey key;
};

/// A convolution with padding, whose result is as large as its input.
ConvShape padded(std::int64_t images, std::int64_t size, std::int64_t channels, std::int64_t filters,
                 std::int64_t filter, std::int64_t stride = 1) {
  return shape(images, size, channels, filters, filter, stride, filter / 3);
}

constexpr std::int64_t kBase = 64, kDepth = 4, kSize = 512;

/// Returns the convolutions of the network. As conv_weight_gradient.cu requests them, the weight gradients of the first
/// layer and of the head have their channels padded to eight.
std::vector<Named> of_the_unet(std::int64_t images, DType in) {
  std::vector<Named> all;
  const auto add = [&](const std::string& name, ConvPass pass, const ConvShape& s, bool bias = false) {
    const char* const passes[] = {"forward", "data gradient", "weight gradient"};
    all.push_back({name + " " + passes[static_cast<int>(pass)], key_of(pass, in, s, bias)});
  };
  const auto layer = [&](std::int64_t size, std::int64_t channels, std::int64_t filters) {
    const std::string name = fmt::format("3x3 {} to {} at {}", channels, filters, size);
    add(name, ConvPass::kForward, padded(images, size, channels, filters, 3));
    if (channels != 3) add(name, ConvPass::kDataGradient, padded(images, size, channels, filters, 3));
    add(name, ConvPass::kWeightGradient, padded(images, size, channels == 3 ? 8 : channels, filters, 3));
  };
  for (std::int64_t level = 0; level <= kDepth; ++level) {
    const std::int64_t size = kSize >> level, width = kBase << level;
    layer(size, level == 0 ? 3 : width / 2, width);
    layer(size, width, width);
    if (level == kDepth) continue;
    layer(size, 2 * width, width);
    const ConvShape up = padded(images, size, width, 2 * width, 2, 2);
    const std::string name = fmt::format("2x2 up {} to {} at {}", 2 * width, width, size);
    add(name, ConvPass::kDataGradient, up, true);
    add(name, ConvPass::kForward, up);
    add(name, ConvPass::kWeightGradient, up);
  }
  add("head", ConvPass::kForward, padded(images, kSize, kBase, 1, 1), true);
  add("head", ConvPass::kDataGradient, padded(images, kSize, kBase, 1, 1));
  add("head", ConvPass::kWeightGradient, padded(images, kSize, kBase, 8, 1));
  return all;
}

/// Engines that cuDNN compiles query the driver; see AttentionEngines in attention_plan_test.cpp.
class ConvEngines : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* const path = std::getenv("BINADE_EMPTY_DRIVER");
    if (path != nullptr) driver_ = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  }
  void SetUp() override {
    if (driver_ == nullptr) GTEST_SKIP() << "BINADE_EMPTY_DRIVER names no driver";
    if (cudnnGetVersion() < 91501 || cudnnGetVersion() >= 92100) GTEST_SKIP() << "engines of another cuDNN";
    ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  }
  static std::vector<EngineChoice> proposed(const ConvKey& key) {
    return propose_conv(key, {.device = described_device()});
  }
  static bool uses_tensor_cores(const ConvKey& key, const EngineChoice& choice) {
    const OperationGraph graph = conv_graph(key, static_cast<ConvForm>(choice.form));
    const auto notes = notes_of(described_engine(graph, choice.engine));
    return std::ranges::find(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
  }
  static inline void* driver_ = nullptr;
};

TEST_F(ConvEngines, WithTensorCoresExistForTheWholeUnet) {
  const bool print = std::getenv("BINADE_PRINT_ENGINES") != nullptr;
  for (const std::int64_t images : {1, 16, 32})
    for (const DType in : {DType::bf16, DType::f16}) {
      if (in == DType::f16 && images != 16 && !print) continue;  // takes a minute each
      for (const auto& [name, key] : of_the_unet(images, in)) {
        const std::vector<EngineChoice> all = proposed(key);
        std::map<std::int64_t, bool> engines;
        for (const EngineChoice& choice : all)
          if (!engines.contains(choice.engine)) engines[choice.engine] = uses_tensor_cores(key, choice);
        const auto with = std::count_if(all.begin(), all.end(), [&](const auto& c) { return engines[c.engine]; });
        EXPECT_GT(with, 0) << name << ": " << key.text();
        if (print && !all.empty())
          fmt::print("{} x {} {}: {} of {} with Tensor Cores, first {}\n", images, name_of(in), name, with, all.size(),
                     engine_line("", all.front()));
        // The head's data gradient reads one channel and needs few multiplications. But for a bias or a weight
        // gradient, whose sums have another dtype than the result, engines without Tensor Cores must not be proposed.
        if (key.bias || key.pass == ConvPass::kWeightGradient) {
          EXPECT_EQ(with, static_cast<std::ptrdiff_t>(all.size())) << name;
        }
      }
    }
}

TEST_F(ConvEngines, SplitLongSumsOfFewResults) {
  const auto slices = [](const ConvKey& key) {
    const EngineChoice first = proposed(key).at(0);
    for (const auto& [type, value] : first.knobs)
      if (type == CUDNN_KNOB_TYPE_SPLIT_K_SLC) return value;
    return std::int64_t{1};
  };
  for (const DType in : {DType::bf16, DType::f16}) {
    EXPECT_EQ(slices(key_of(ConvPass::kWeightGradient, in, padded(16, 512, 64, 64, 3))), 52)
        << "five tiles of a result";
    EXPECT_EQ(slices(key_of(ConvPass::kWeightGradient, in, padded(16, 512, 64, 8, 1))), 128);
    EXPECT_EQ(slices(key_of(ConvPass::kWeightGradient, in, padded(1, 32, 64, 64, 3))), 1) << "not worth it";
    EXPECT_EQ(slices(key_of(ConvPass::kWeightGradient, in, padded(16, 32, 1024, 1024, 3))), 1) << "tiles enough";
    EXPECT_EQ(slices(key_of(ConvPass::kForward, in, padded(16, 512, 64, 64, 3))), 1);
  }
}

/// Returns the size of the workspace in bytes, which cuDNN reports before planning.
std::int64_t workspace_of(const ConvKey& key, const EngineChoice& choice) {
  const OperationGraph graph = conv_graph(key, static_cast<ConvForm>(choice.form));
  const Descriptor engine = described_engine(graph, choice.engine);
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& [type, value] : choice.knobs) {
    Descriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set_one(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    raw.push_back(knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {value}).finalize().raw());
  }
  config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
             raw.data());
  return config.finalize().integer(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
}

/// cuDNN identifies its kernels by numbers. This test checks their workspace for a result of 64 x 576, to detect a
/// version that numbers them differently.
TEST_F(ConvEngines, SplitWithTheExpectedTiles) {
  const std::map<std::int64_t, std::int64_t> padded_results{
      {-1, 128 * 640}, {11, 64 * 576}, {10, 64 * 640}, {19, 64 * 576}};
  const ConvKey key = key_of(ConvPass::kWeightGradient, DType::bf16, padded(16, 512, 64, 64, 3));
  int cut = 0;
  for (const EngineChoice& choice : proposed(key)) {
    if (choice.knobs.empty() || choice.knobs[0].first != CUDNN_KNOB_TYPE_SPLIT_K_SLC) continue;
    const std::int64_t kernel = choice.knobs.size() > 1 ? choice.knobs[1].second : -1;
    const std::int64_t sums = 52 * 4 * padded_results.at(kernel), bytes = workspace_of(key, choice);
    EXPECT_TRUE(bytes >= sums && bytes < sums + 4096) << engine_line("", choice) << ": " << bytes << " for " << sums;
    ++cut;
  }
  EXPECT_EQ(cut, 8);
}

/// Convolutions for which cuDNN has no engine, and which conv.cu and conv_weight_gradient.cu therefore compute
/// differently. If this test fails, a newer cuDNN has an engine.
TEST_F(ConvEngines, AreNotProposedForUnsupportedCalls) {
  const ConvShape s = padded(16, 512, 64, 64, 3), up = padded(16, 512, 64, 128, 2, 2);
  for (const DType in : {DType::bf16, DType::f16}) {
    ConvKey key = key_of(ConvPass::kWeightGradient, in, padded(16, 512, 3, 64, 3));
    EXPECT_TRUE(proposed(key).empty()) << "three channels";
    key = key_of(ConvPass::kWeightGradient, in, padded(16, 512, 64, 1, 1));
    EXPECT_TRUE(proposed(key).empty()) << "one filter";
    key = key_of(ConvPass::kWeightGradient, in, s);
    key.x_pitch = 128;
    EXPECT_TRUE(proposed(key).empty()) << "a slice";
    key = key_of(ConvPass::kDataGradient, in, up, true);
    key.x_pitch = 128;
    EXPECT_TRUE(proposed(key).empty()) << "a bias into a slice";
    key.bias = false;
    EXPECT_FALSE(proposed(key).empty()) << "sums into a slice";
    key = key_of(ConvPass::kForward, in, s);
    key.x_pitch = key.y_pitch = 128;
    EXPECT_FALSE(proposed(key).empty()) << "from slice to slice";
  }
}

}  // namespace
}  // namespace binade::cuda
