#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "binade/core/backend.h"
#include "binade/core/memory_plan.h"
#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"

// Compares the size of the planned arena with its lower bound, for forward and backward of both example models in their
// usual proportions.
namespace binade::examples {
namespace {

void expect_planned(const char* name, nn::Module& model, const std::function<Variable()>& loss,
                    const amp::Policy& policy) {
  const auto step = [&] {
    for (const auto& [path, parameter] : nn::named_parameters(model)) parameter->zero_grad();
    const PolicyScope scope(policy);
    backward(loss());
  };
  step();  // allocates the gradients
  const MemoryTrace trace = backend_of(Device::cpu()).trace(step);
  const auto begin = std::chrono::steady_clock::now();
  const MemoryPlan plan = plan_memory(trace, 256);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double share = static_cast<double>(plan.bytes) / static_cast<double>(plan.bound);
  std::printf("%-22s %5zu blocks: arena %7.2f MiB, bound %7.2f MiB, %.4f of it, planned in %.3f s\n", name,
              trace.blocks.size(), static_cast<double>(plan.bytes) / (1 << 20),
              static_cast<double>(plan.bound) / (1 << 20), share, took.count());
  EXPECT_LE(share, 1.05) << name;
}

TEST(ModelMemory, TheArenaOfATransformerIsCloseToTheLowerBound) {
  const Runtime runtime;
  // The depth of GPT-2 with an eighth of its width, context and vocabulary.
  const auto run = [](const char* name, GptOptions options, const amp::Policy& policy) {
    Gpt model(options);
    const Tensor tokens = Tensor::zeros({2, options.context}, DType::i32);
    expect_planned(
        name, model, [&] { return cross_entropy(model(tokens), tokens); }, policy);
  };
  const GptOptions gpt2{.layers = 12, .heads = 6, .dim = 96, .context = 128, .vocabulary = 6282, .table = 6288};
  run("gpt2/8 fp32", gpt2, amp::Policy::fp32());
  run("gpt2/8 bf16", gpt2, amp::Policy::bf16());
  GptOptions other = gpt2;
  other.dropout = 0.1;
  run("gpt2/8 bf16 dropout", other, amp::Policy::bf16());
  other.recompute = true;
  run("gpt2/8 bf16 recompute", other, amp::Policy::bf16());
  other = gpt2;
  other.composed = true;
  run("gpt2/8 fp16 composed", other, amp::Policy::fp16());
}

TEST(ModelMemory, TheArenaOfAUNetIsCloseToTheLowerBound) {
  const Runtime runtime;
  const auto run = [](const char* name, UNetOptions options, const amp::Policy& policy) {
    UNet model(options);
    const Tensor x = Tensor::full({2, 64, 64, options.in}, 0.5), mask = Tensor::zeros({2, 64, 64, 1});
    expect_planned(
        name, model, [&] { return bce_with_logits(model(x), mask); }, policy);
  };
  run("unet/8 fp32", {.in = 3, .base = 8, .depth = 4}, amp::Policy::fp32());
  run("unet/8 fp16", {.in = 3, .base = 8, .depth = 4}, amp::Policy::fp16());
  run("unet/8 fp16 recompute", {.in = 3, .base = 8, .depth = 4, .recompute = true}, amp::Policy::fp16());
}

/// Expects `wanted` blocks for `elements` values of `size` bytes in the trace.
void expect_blocks(const char* name, const MemoryTrace& trace, std::int64_t elements, std::size_t size, int wanted) {
  const auto bytes = static_cast<std::size_t>(elements) * size;
  // A block from the cache may be up to 1/16 larger than requested.
  const auto like = [bytes](const MemoryTrace::Block& b) { return b.bytes >= bytes && b.bytes < bytes + bytes / 16; };
  EXPECT_EQ(std::ranges::count_if(trace.blocks, like), wanted) << name;
}

TEST(ModelMemory, GradientsOfTheTableAndOfTheLogitsTakeNoFurtherBlocks) {
  const Runtime runtime;
  const GptOptions options{.layers = 1, .heads = 2, .dim = 32, .context = 64, .vocabulary = 3000, .table = 3000};
  Gpt model(options);
  const Tensor tokens = Tensor::zeros({2, options.context}, DType::i32);
  for (const bool half : {false, true}) {
    const amp::Policy policy = half ? amp::Policy::bf16() : amp::Policy::fp32();
    const auto step = [&](int micro_batches) {
      for (const auto& [path, parameter] : nn::named_parameters(model)) parameter->zero_grad();
      for (int i = 0; i < micro_batches; ++i) {
        const PolicyScope scope(policy);
        const Variable loss = cross_entropy(model(tokens), tokens);  // the temporary output of the model is freed here
        backward(loss);
      }
    };
    step(1);  // allocates the gradients
    const char* name = half ? "bf16" : "fp32";
    for (const int micro_batches : {1, 2}) {
      const MemoryTrace trace = backend_of(Device::cpu()).trace([&] { step(micro_batches); });
      // Head and embedding share the table, and add to its one gradient in every micro-batch. So a step allocates no
      // block of this size.
      expect_blocks(name, trace, options.table * options.dim, sizeof(float), 0);
      // The gradient of the logits is written over the logits: one block per micro-batch.
      const std::int64_t logits = tokens.numel() * options.vocabulary;
      expect_blocks(name, trace, logits, half ? 2 : sizeof(float), micro_batches);
    }
  }
}

}  // namespace
}  // namespace binade::examples
