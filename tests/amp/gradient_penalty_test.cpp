#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/grad.h"
#include "binade/nn/linear.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

struct Critic : nn::Module {
  nn::Linear in{{.in = 4, .out = 16, .activation = Activation::kGelu}}, out{{.in = 16, .out = 1}};
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(in(x)); }
};

/// mean(y) + factor mean((|dy/dx| - 1)^2).
Variable loss_of(Critic& critic, const Tensor& at, double factor) {
  const Variable x(at, true), y = critic(x);
  const Variable slope = grad(sum(y), x, {.create_graph = true});
  return mean(y) + mean(square(sqrt(sum(square(slope), {1})) - 1)) * factor;
}

/// The result of a step, and the hash of the state after it.
struct Step {
  StepResult result{};
  std::string hash{};
};
Step one_step(const Policy& policy, double factor) {
  Runtime runtime({.seed = 3, .threads = 2});
  Critic critic;
  optim::Sgd optimizer(critic, {.lr = 0.1});
  Trainer trainer(runtime, critic, optimizer, {.precision = policy});
  const StepResult result = trainer.step(toy::random({8, 4}, 5),
                                         [&](const Tensor& x) { return loss_of(critic, x, factor); });
  return {result, trainer.state_hash()};
}

TEST(GradientPenalty, TrainsUnderEveryPolicy) {
  const Step exact = one_step(Policy::fp32(), 10);
  EXPECT_GT(std::abs(exact.result.grad_norm - one_step(Policy::fp32(), 0).result.grad_norm), 0.5);
  for (const char* name : {"tf32", "fp16", "bf16", "pure-fp16", "pure-bf16"}) {
    const Step step = one_step(Policy::by_name(name), 10);
    EXPECT_TRUE(step.result.committed) << name;
    EXPECT_NEAR(step.result.grad_norm, exact.result.grad_norm, 0.03 * exact.result.grad_norm) << name;
    EXPECT_EQ(step.hash, one_step(Policy::by_name(name), 10).hash) << name;
  }
}

TEST(GradientPenalty, EightBitLayersAreRefusedWithTheOverrideToUse) {
  try {
    one_step(Policy::fp8(), 10);
    FAIL() << "no error";
  } catch (const AutogradError& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("linear [out]: "), std::string::npos) << words;
    EXPECT_NE(words.find("override to bf16"), std::string::npos) << words;
  }
  EXPECT_TRUE(one_step(Policy::fp8().with("in", DType::bf16).with("out", DType::bf16), 10).result.committed);
}

}  // namespace
}  // namespace binade::amp
