#include "binade/autograd/recompute.h"

#include <gtest/gtest.h>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/apply.h"
#include "binade/autograd/functions.h"
#include "binade/nn/linear.h"
#include "binade/optim/sgd.h"
#include "tests/error_text.h"

namespace binade {
namespace {

using test::error_of;

class RecomputeOfSeveral : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 1, .threads = 1}};
  Variable a_{Tensor::from({0.5f, -2.f, 3.f}), true}, b_{Tensor::from({2.f, 4.f, 0.25f}), true},
      w_{Tensor::from({1.5f, -1.f, 2.f}), true};
};

/// Two inputs, two floating results and a whole one; both floating results lead to the loss.
TEST_F(RecomputeOfSeveral, GradientsHaveTheBitsOfTheGraphThatSavesEverything) {
  const auto segment = [this](std::span<const Variable> in) {
    const Variable product = in[0] * w_;
    return std::vector<Variable>{tanh(product) + in[1], sum(exp(product * in[1])), argmax(product, 0)};
  };
  std::vector<std::vector<float>> gradients[2];
  float losses[2];
  for (const bool saved : {false, true}) {
    for (Variable* x : {&a_, &b_, &w_}) x->zero_grad();
    const std::vector<Variable> y = saved ? segment(std::vector<Variable>{a_, b_}) : recompute(segment, {a_, b_});
    ASSERT_EQ(y.size(), 3u);
    EXPECT_EQ(y[2].dtype(), DType::i64);
    EXPECT_FALSE(y[2].requires_grad());
    const Variable loss = sum(y[0] * y[0]) + 3.0 * y[1];
    losses[saved] = static_cast<float>(loss.item());
    backward(loss);
    for (const Variable& x : {a_, b_, w_}) gradients[saved].push_back(x.grad().to_vector<float>());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST_F(RecomputeOfSeveral, AResultThatIsNotUsedNeedsNoGradient) {
  const auto y = recompute(
      [this](std::span<const Variable> in) {
        return std::vector<Variable>{in[0] * w_, exp(in[0])};
      },
      {a_});
  backward(sum(y[0]));
  EXPECT_EQ(a_.grad().to_vector<float>(), w_.value().to_vector<float>());
}

/// The first run of a segment records nothing: a value that leaves it by another way has no gradient.
TEST_F(RecomputeOfSeveral, AValueThatLeavesThroughACapturedVariableIsRefused) {
  Variable aside;
  const Variable y = recompute(
      [&](const Variable& x) {
        aside = sum(x * x);
        return x * w_;
      },
      a_);
  const std::string text = error_of<AutogradError>([&] { static_cast<void>(sum(y) + aside); });
  EXPECT_NE(text.find("return it from the segment"), std::string::npos) << text;
  backward(sum(y) + aside.detach());
  EXPECT_EQ(a_.grad().to_vector<float>(), w_.value().to_vector<float>());
}

struct Recomputed : nn::Module {
  nn::Linear layer{{.in = 3, .out = 3}};
  void visit(nn::Visitor& v) override { v("layer", layer); }
  Variable forward(const Variable& x) override {
    return recompute([this](const Variable& in) { return softmax(layer(in)); }, x);
  }
};

TEST_F(RecomputeOfSeveral, OverridesMayNameOpsOfASegment) {
  for (const char* target : {"layer/linear", "softmax", "*/linear", "layer"}) {
    Recomputed net;
    optim::Sgd optimizer(net, {.lr = 0.1});
    amp::Trainer trainer(runtime_, net, optimizer, {.precision = amp::Policy::bf16().with(target, DType::f32)});
    const auto loss = [&](const Tensor& x) { return sum(square(net(x))); };
    EXPECT_TRUE(trainer.step(Tensor::full({2, 3}, 1), loss).committed) << target;
  }
  Recomputed net;
  optim::Sgd optimizer(net, {.lr = 0.1});
  amp::Trainer trainer(runtime_, net, optimizer, {.precision = amp::Policy::bf16().with("layer/lniear", DType::f32)});
  const std::string text = error_of<ArgumentError>([&] {
    trainer.step(Tensor::full({2, 3}, 1), [&](const Tensor& x) { return sum(square(net(x))); });
  });
  EXPECT_NE(text.find("the nearest is 'layer/linear'"), std::string::npos) << text;
}

/// Ops of a user that break the contract of an op unit.
struct WithoutOutput {
  struct Params {};
  static constexpr OpInfo info{.name = "without_output"};
  static Tensors forward(OpContext&, std::span<const Tensor>, const Params&) { return {}; }
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};
struct AsksTooFar {
  struct Params {};
  static constexpr OpInfo info{.name = "asks_too_far"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) { return {in[0]}; }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(1)) gx.set(1, gy[0]);
  }
};

TEST_F(RecomputeOfSeveral, UserOpsThatBreakTheContractAreNamed) {
  EXPECT_NE(
      error_of<ArgumentError>([&] { apply_one<WithoutOutput>({}, {a_}); }).find("without_output: forward returned"),
      std::string::npos);
  EXPECT_NE(error_of<ArgumentError>([&] {
              backward(sum(apply_one<AsksTooFar>({}, {a_})));
            }).find("asks_too_far: backward asks for the gradient of input 1, but the call had 1 inputs"),
            std::string::npos);
}

}  // namespace
}  // namespace binade
