#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "binade/cuda/device/conv_graph.h"
#include "binade/cuda/device/failure.h"
#include "tests/cuda/conv_keys.h"
#include "tests/cuda/described_device.h"

namespace binade::cuda {
namespace {

constexpr ConvPass kPasses[] = {ConvPass::kForward, ConvPass::kDataGradient, ConvPass::kWeightGradient};

std::vector<std::int64_t> four(const Descriptor& d, cudnnBackendAttributeName_t name) { return d.integers(name, 4); }

TEST(ConvKey, ContainsEverythingThatTheChoiceDependsOn) {
  alignas(16) char memory[64];
  const ConvArgs call{.shape = shape(2, 9, 8, 6, 3),
                      .in = DType::bf16,
                      .out = DType::bf16,
                      .source = memory + 4,
                      .source_pitch = 20,
                      .filter = memory,
                      .result = memory + 8,
                      .result_pitch = 6,
                      .bias = memory};
  const ConvKey key = conv_key(call);
  EXPECT_EQ(key.x_pitch, 20);
  EXPECT_EQ(key.x_alignment, 4);
  EXPECT_EQ(key.y_alignment, 8);
  EXPECT_EQ(
      key.text(),
      "conv forward bf16 bf16 x 2 9 9 8 pitch 20 align 4 y 7 7 6 pitch 6 align 8 w 3 3 align 16 stride 1 1 padding "
      "0 0 dilation 1 1 groups 1 bias 1 tf32 0");
  ConvArgs transposed = call;  // in a transposed convolution the input of the graph is y
  transposed.transposed = true;
  EXPECT_EQ(conv_key(transposed).y_pitch, 20);
  EXPECT_EQ(conv_key(transposed).x_alignment, 8);
  EXPECT_EQ(conv_key(transposed).pass, ConvPass::kDataGradient);
}

TEST(ConvKey, DifferentCallsHaveDifferentKeys) {
  std::vector<ConvKey> keys{key_of(ConvPass::kForward, DType::bf16, shape(2, 9, 8, 6, 3))};
  const auto other = [&keys](auto&& change) { change(keys.emplace_back(keys.front())); };
  other([](ConvKey& k) { k.pass = ConvPass::kDataGradient; });
  other([](ConvKey& k) { k.in = DType::f16; });
  other([](ConvKey& k) { k.out = DType::f32; });
  other([](ConvKey& k) { k.bias = true; });
  other([](ConvKey& k) { k.tf32 = true; });
  other([](ConvKey& k) { k.shape.groups = 2; });
  other([](ConvKey& k) { k.x_pitch = 16; });
  other([](ConvKey& k) { k.y_pitch = 16; });
  other([](ConvKey& k) { k.x_alignment = 8; });
  other([](ConvKey& k) { k.w_alignment = 8; });
  other([](ConvKey& k) { k.y_alignment = 8; });
  for (int d = 0; d < 2; ++d) {
    other([d](ConvKey& k) { k.shape.stride[d] = 2; });
    other([d](ConvKey& k) { k.shape.padding[d] = 1; });
    other([d](ConvKey& k) { k.shape.dilation[d] = 2; });
  }
  std::set<std::string> texts;
  for (const ConvKey& key : keys) texts.insert(key.text());
  EXPECT_EQ(texts.size(), keys.size());
  for (const ConvKey& key : keys) EXPECT_EQ(key == keys.front(), &key == &keys.front()) << key.text();
}

TEST(ConvKey, SomeCallsAreNotRequestedFromALibrary) {
  ConvKey key = key_of(ConvPass::kForward, DType::f32, shape(1, 9, 8, 8, 3));
  EXPECT_EQ(no_library_for(key), "");
  key.shape.out_height -= 1;
  EXPECT_NE(no_library_for(key), "");
  EXPECT_NE(no_library_for(key_of(ConvPass::kForward, DType::f64, shape(1, 9, 8, 8, 3))), "");
}

TEST(ConvPlanText, RoundTrips) {
  const EngineChoice choices[] = {
      {},
      {.library = true, .form = ConvForm::kThroughFloat, .engine = 38, .knobs = {{2, 5}, {13, -1}}},
      {.library = true, .form = ConvForm::kDirect, .engine = 0, .knobs = {}},
  };
  for (const EngineChoice& choice : choices) {
    const std::string line = engine_line("conv forward", choice);
    const auto plan = parse_engine_line(line, kConvFamily, kConvForms);
    ASSERT_TRUE(plan) << line;
    EXPECT_EQ(plan->key, "conv forward");
    EXPECT_EQ(plan->choice, choice) << line;
  }
  for (const char* bad : {"", "cudnn 91900 sm_90 multiprocessors 132", "conv forward",
                          "conv forward = ", "gemm a = own", "conv forward = form 2 engine 1 knobs",
                          "conv forward = form 0 engine x knobs", "conv forward = form 0 engine 1",
                          "conv forward = form 0 engine 1 knobs 3", "conv forward = form 0 engine 1 knobs 3:x",
                          "conv forward = form 0 engine 99999999999999999999 "
                          "knobs"})
    EXPECT_FALSE(parse_engine_line(bad, kConvFamily, kConvForms)) << bad;
}

TEST(ConvGraph, SlicesAndFiltersBecomeStrides) {
  ConvKey key = key_of(ConvPass::kForward, DType::bf16, shape(2, 9, 8, 6, 3, 1, 1, 2));
  key.x_pitch = 24;
  const OperationGraph g = conv_graph(key, ConvForm::kDirect);
  const Descriptor &x = g.parts[0], &w = g.parts[1], &y = g.parts[2];
  using V = std::vector<std::int64_t>;
  EXPECT_EQ(four(x, CUDNN_ATTR_TENSOR_DIMENSIONS), (V{2, 8, 9, 9}));
  EXPECT_EQ(four(x, CUDNN_ATTR_TENSOR_STRIDES), (V{9 * 9 * 24, 1, 9 * 24, 24}));
  EXPECT_EQ(x.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID), kTensorX);
  EXPECT_EQ(four(w, CUDNN_ATTR_TENSOR_DIMENSIONS), (V{6, 4, 3, 3}));
  EXPECT_EQ(four(w, CUDNN_ATTR_TENSOR_STRIDES), (V{3 * 3 * 4, 1, 3 * 4, 4}));
  EXPECT_EQ(four(y, CUDNN_ATTR_TENSOR_STRIDES), (V{9 * 9 * 6, 1, 9 * 6, 6}));
  EXPECT_EQ(y.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID), kTensorY);
}

TEST(ConvGraph, IsKnownToCudnnForEveryPass) {
  for (const ConvPass pass : kPasses)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const bool bias : {false, true}) {
        if (bias && pass == ConvPass::kWeightGradient) continue;
        for (const ConvForm form : {ConvForm::kDirect, ConvForm::kThroughFloat}) {
          if (bias && form == ConvForm::kDirect) continue;
          const ConvKey key = key_of(pass, dtype, shape(2, 16, 8, 16, 3, 2, 1), bias);
          const OperationGraph g = conv_graph(key, form);
          EXPECT_GT(g.graph.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), 0) << key.text();
        }
      }
}

TEST(ConvGraph, AnInvalidKeyThrows) {
  ConvKey key = key_of(ConvPass::kForward, DType::f32, shape(1, 9, 8, 8, 3));
  key.shape.out_width = 100;
  try {
    conv_graph(key, ConvForm::kDirect);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("cuDNN"), std::string::npos);
  }
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const EnginePlan& plan) {
  return notes_of(described_engine(plan.graph, plan.choice.engine));
}

/// Returns the plan that is used without autotuning.
std::optional<EnginePlan> first_plan(const ConvKey& key, const EngineTarget& target) {
  for (const EngineChoice& choice : propose_conv(key, target))
    if (std::optional<EnginePlan> plan = restore_conv_plan(key, choice, target)) return plan;
  return {};
}

/// Engines that cuDNN compiles when it makes a plan need a driver; precompiled engines do not.
TEST(ConvChoice, IsMadeForADescribedDevice) {
  ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  const EngineTarget target{.device = described_device()};
  for (const ConvPass pass : kPasses)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (pass == ConvPass::kWeightGradient && dtype != DType::f32) continue;
      const ConvKey key = key_of(pass, dtype, shape(8, 64, 64, 128, 3, 1, 1));
      const auto plan = first_plan(key, target);
      ASSERT_TRUE(plan) << key.text();
      for (const cudnnBackendNumericalNote_t note : notes_of(*plan)) {
        EXPECT_NE(note, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) << key.text();
        EXPECT_NE(note, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) << key.text();
        EXPECT_NE(note, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) << key.text();
        EXPECT_FALSE(note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && dtype == DType::f32) << key.text();
      }
      const auto line = parse_engine_line(engine_line(key.text(), plan->choice), kConvFamily, kConvForms);
      ASSERT_TRUE(line);
      EXPECT_EQ(line->key, key.text());
      const auto restored = restore_conv_plan(key, line->choice, target);
      ASSERT_TRUE(restored) << key.text();
      EXPECT_EQ(restored->workspace, plan->workspace);
      EXPECT_EQ(first_plan(key, target)->choice, plan->choice) << "the same twice";
    }
}

TEST(ConvKey, Tf32AppliesToF32Only) {
  for (const DType in : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const ConvShape s = shape(2, 9, 8, 6, 3);
    EXPECT_EQ(conv_key(ConvArgs{.shape = s, .in = in, .out = in, .tf32 = true}).tf32, in == DType::f32);
    EXPECT_EQ(conv_key(ConvWeightArgs{.shape = s, .in = in, .tf32 = true}).tf32, in == DType::f32);
    EXPECT_FALSE(conv_key(ConvArgs{.shape = s, .in = in, .out = in}).tf32);
  }
}

TEST(ConvChoice, UsesTensorCoresForF32IfTf32IsAllowed) {
  ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  const EngineTarget target{.device = described_device()};
  for (const ConvPass pass : kPasses) {
    const ConvKey strict = key_of(pass, DType::f32, shape(8, 64, 64, 128, 3, 1, 1));
    ConvKey key = strict;
    key.tf32 = true;
    const auto plan = first_plan(key, target);
    ASSERT_TRUE(plan) << key.text();
    const auto notes = notes_of(*plan);
    EXPECT_EQ(std::count(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE), 1) << key.text();
    for (const cudnnBackendNumericalNote_t other :
         {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
          CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION})
      EXPECT_EQ(std::count(notes.begin(), notes.end(), other), 0) << key.text();
    EXPECT_TRUE(restore_conv_plan(key, plan->choice, target)) << key.text();
    EXPECT_FALSE(restore_conv_plan(strict, plan->choice, target)) << key.text();
  }
}

/// Engines that add in any order are proposed if the target allows it. Their plan lines are refused if it does not.
TEST(ConvChoice, MayAddInAnyOrderIfAllowed) {
  ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  const EngineTarget strict{.device = described_device()}, any{.device = described_device(), .any_order = true};
  const ConvKey key = key_of(ConvPass::kWeightGradient, DType::f32, shape(8, 64, 64, 128, 3, 1, 1));
  const std::vector<EngineChoice> kept = propose_conv(key, strict);
  int others = 0;
  for (const EngineChoice& choice : propose_conv(key, any)) {
    if (std::find(kept.begin(), kept.end(), choice) != kept.end()) continue;
    ++others;
    EXPECT_FALSE(restore_conv_plan(key, choice, strict)) << engine_line(key.text(), choice);
  }
  EXPECT_GT(others, 0);
}

TEST(ConvChoice, HeuristicsProposeMorePlansForAutotuning) {
  ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  const ConvKey key = key_of(ConvPass::kForward, DType::bf16, shape(8, 64, 64, 128, 3, 1, 1));
  const std::vector<EngineChoice> few = propose_conv(key, {.device = described_device()}),
                                  many = propose_conv(key, {.device = described_device(), .mode_b = true});
  EXPECT_GE(many.size(), few.size());
  EXPECT_EQ(many.at(0), few.at(0));
  for (std::size_t i = 0; i < many.size(); ++i)
    EXPECT_EQ(std::find(many.begin(), many.end(), many[i]) - many.begin(), static_cast<std::ptrdiff_t>(i)) << "once";
}

TEST(ConvChoice, AStoredChoiceIsValidated) {
  ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  const EngineTarget target{.device = described_device()};
  const ConvShape s = shape(8, 64, 64, 128, 3, 1, 1);
  const ConvKey f32 = key_of(ConvPass::kForward, DType::f32, s), bf16 = key_of(ConvPass::kForward, DType::bf16, s);
  const auto half = first_plan(bf16, target);
  ASSERT_TRUE(half);
  EXPECT_FALSE(restore_conv_plan(f32, half->choice, target)) << "Tensor Cores would make TF32 of f32";
  EngineChoice wrong = half->choice;
  wrong.engine = 100000;
  EXPECT_FALSE(restore_conv_plan(bf16, wrong, target));
  wrong = half->choice;
  wrong.knobs.emplace_back(100000, 1);
  EXPECT_FALSE(restore_conv_plan(bf16, wrong, target));
  wrong = half->choice;
  wrong.form = ConvForm::kThroughFloat;
  EXPECT_FALSE(restore_conv_plan(bf16, wrong, target));
  EXPECT_FALSE(restore_conv_plan(bf16, half->choice, {.device = described_device(), .most_workspace = 0}));
}

}  // namespace
}  // namespace binade::cuda
