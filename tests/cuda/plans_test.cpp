#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/gpus.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

// Tests which calls go to the device's libraries; each call leaves a plan line.
namespace binade {
namespace {

/// Returns the current plan lines without title lines.
std::set<std::string> lines_now() {
  std::istringstream text(gpus::plans());
  std::set<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("gemm ") || line.starts_with("conv ") || line.starts_with("product ") ||
        line.starts_with("attention "))
      lines.insert(line);
  return lines;
}

Variable input(const Shape& shape, std::uint64_t tag) {
  return Variable(random_values(shape, tag).to(DType::f32).to(test_device()), true);
}

struct Requests {
  std::set<std::string> forward, backward;
};

/// Runs products of three kinds: forward under `policy`, then backward without a policy. Returns the new lines of each.
Requests lines_of(const PrecisionPolicy& policy) {
  const std::set<std::string> before = lines_now();
  Variable loss;
  {
    const PolicyScope scope(policy);
    const Variable x = input({3, 40}, 1), w = input({24, 40}, 2), m = input({24, 56}, 3);
    const Variable y = matmul(linear(x, w), m);
    const Variable image = input({1, 6, 6, 8}, 4), filters = input({16, 3, 3, 8}, 5);
    loss = sum(y) + sum(conv2d(image, filters));
  }
  const std::set<std::string> between = lines_now();
  backward(loss);
  const std::set<std::string> after = lines_now();
  Requests asked;
  std::ranges::set_difference(between, before, std::inserter(asked.forward, asked.forward.end()));
  std::ranges::set_difference(after, between, std::inserter(asked.backward, asked.backward.end()));
  return asked;
}

bool allows_tf32(const std::string& line) {
  return line.find("tf32=1") != line.npos || line.find("tf32 1") != line.npos;
}

TEST(CudaPlans, RequestTf32IfThePolicyOfForwardAllowsIt) {
  const Requests strict = lines_of({});
  if (strict.forward.empty())
    GTEST_SKIP() << "no library is there; on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  const Requests rounded = lines_of({.tf32 = true});
  // Forward: two products and a convolution; backward: two gradients of each.
  EXPECT_EQ(strict.forward.size(), 3u);
  EXPECT_EQ(strict.backward.size(), 6u);
  EXPECT_EQ(rounded.forward.size(), 3u);
  EXPECT_EQ(rounded.backward.size(), 6u);
  for (const auto& lines : {strict.forward, strict.backward})
    for (const std::string& line : lines) EXPECT_FALSE(allows_tf32(line)) << line;
  for (const auto& lines : {rounded.forward, rounded.backward})
    for (const std::string& line : lines) EXPECT_TRUE(allows_tf32(line)) << line;
}

TEST(CudaPlans, Request8BitProductsIfTheSizesFit) {
  if (lines_of({}).forward.empty() && lines_now().empty())
    GTEST_SKIP() << "no library is there; on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  if (!ops::multiplies_fp8_codes(test_device(), 16, 80, 32)) GTEST_SKIP() << "this GPU has no 8-bit products";
  const auto asked = [](std::int64_t rows, std::int64_t inputs) {
    const std::set<std::string> before = lines_now();
    const PolicyScope scope(PrecisionPolicy{.low = DType::bf16});
    const Variable y = linear(input({rows, inputs}, 1), input({32, inputs}, 2), {}, {.fp8 = ops::Fp8Scaling{}});
    backward(sum(y));
    std::map<std::string, int> count;
    for (const std::string& line : lines_now())
      for (const char* format : {"e4m3", "e5m2"})
        if (!before.contains(line) && line.find(format) != line.npos) ++count[format];
    return count;
  };
  EXPECT_EQ(asked(16, 80), (std::map<std::string, int>{{"e4m3", 1}, {"e5m2", 2}}));
  EXPECT_EQ(asked(16, 88), (std::map<std::string, int>{})) << "no multiple of 16";
  EXPECT_EQ(asked(17, 80), (std::map<std::string, int>{})) << "no multiple of 16";
}

TEST(CudaPlans, RequestWeightGradientsWithChannelsPaddedToEight) {
  const std::set<std::string> before = lines_now();
  const PolicyScope scope(PrecisionPolicy{}.with("*", DType::bf16));
  const auto half = [](const Shape& shape, std::uint64_t tag) {
    return Variable(random_values(shape, tag).to(DType::bf16).to(test_device()), true);
  };
  backward(sum(conv2d(half({1, 6, 6, 3}, 1), half({17, 3, 3, 3}, 2))));
  std::set<std::string> lines;
  const std::set<std::string> after = lines_now();
  std::ranges::set_difference(after, before, std::inserter(lines, lines.end()));
  if (lines.empty()) GTEST_SKIP() << "no library is there; on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  int gradients = 0;
  for (const std::string& line : lines)
    if (line.starts_with("conv weight-gradient")) {
      ++gradients;
      const bool wide = line.starts_with("conv weight-gradient 8 24") ||
                        (line.find(" pitch 8 ") != line.npos && line.find(" pitch 24 ") != line.npos);
      EXPECT_TRUE(wide) << line;
    }
  EXPECT_EQ(gradients, 1);
}

/// Returns the plan lines of attention, forward and backward.
std::set<std::string> attention_lines(DType dtype, const ops::Attention::Params& options) {
  const std::set<std::string> before = lines_now();
  const PolicyScope scope(PrecisionPolicy{}.with("*", dtype));
  const auto half = [dtype](std::uint64_t tag) {
    return Variable(random_values({2, 7, 2, 24}, tag).to(dtype).to(test_device()), true);
  };
  backward(sum(attention(half(1), half(2), half(3), options)));
  std::set<std::string> lines;
  const std::set<std::string> after = lines_now();
  std::ranges::set_difference(after, before, std::inserter(lines, lines.end()));
  return lines;
}

TEST(CudaPlans, RequestAttentionIn16BitsWithoutDropout) {
  const std::set<std::string> taken = attention_lines(DType::bf16, {.causal = true});
  if (std::ranges::all_of(taken, [](const std::string& line) { return line.ends_with(" = own"); }))
    GTEST_SKIP() << "no library takes attention; on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  EXPECT_EQ(attention_lines(DType::f16, {.causal = true}).size(), 2u) << "forward and backward";
  EXPECT_EQ(attention_lines(DType::f16, {.causal = true}).size(), 0u) << "asked already";
  const std::string told = gpus::notes();
  for (const std::string& line : attention_lines(DType::f32, {})) EXPECT_TRUE(line.ends_with(" = own")) << line;
  for (const std::string& line : attention_lines(DType::f16, {.dropout = 0.5f}))
    EXPECT_TRUE(line.ends_with(" = own")) << line;
  const std::string notes = gpus::notes().substr(told.size());
  for (const char* what :
       {"attention forward f32", "attention backward f32", "dropout 1 aligned 1: computed by Binade"})
    EXPECT_NE(notes.find(what), notes.npos) << what << " in " << notes;
}

TEST(CudaPlans, RequestF32ForAnOverrideOrA16BitDtype) {
  const std::set<std::string> before = lines_now();
  for (const PrecisionPolicy& policy :
       {PrecisionPolicy{.tf32 = true}.with("linear", DType::f32), PrecisionPolicy{.low = DType::f16, .tf32 = true}}) {
    const PolicyScope scope(policy);
    backward(sum(linear(input({5, 48}, 6), input({24, 48}, 7))));
  }
  for (const std::string& line : lines_now()) EXPECT_TRUE(before.contains(line) || !allows_tf32(line)) << line;
}

}  // namespace
}  // namespace binade
