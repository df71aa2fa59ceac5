#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "core/memory_plan.h"
#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"

// What a planned arena costs for the memory of real steps: forward and backward of both example models, in the
// proportions in which they are trained.
namespace binade::examples {
namespace {

void expect_planned(const char* name, nn::Module& model, const std::function<Variable()>& loss,
                    const amp::Policy& policy) {
  const auto step = [&] {
    for (const auto& [path, parameter] : nn::named_parameters(model)) parameter->zero_grad();
    const amp::AutocastScope scope(policy);
    backward(loss());
  };
  step();  // gradients have their storage now
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

TEST(ModelMemory, TheArenaOfATransformerIsNearTheBound) {
  const Runtime runtime;
  // GPT-2's depth, and its proportions of width, context and vocabulary at a quarter (an eighth) of their sizes.
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

TEST(ModelMemory, TheArenaOfAUNetIsNearTheBound) {
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

}  // namespace
}  // namespace binade::examples
