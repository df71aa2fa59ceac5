#include <gtest/gtest.h>

#include "binade/autograd/functions.h"
#include "binade/core/error.h"
#include "tests/amp/toy.h"
#include "tests/error_text.h"

/// Parameters that something other than an update writes: the program between steps, or a closure.
namespace binade::amp {
namespace {

using test::error_of;

/// The second step would bring the weight beyond the range of its 16-bit copy, although bounds for the weight before it
/// was loaded say otherwise.
TEST(ParameterWrites, ALoadedWeightIsProvedAnew) {
  Runtime runtime({.seed = 1, .threads = 1});
  nn::Linear net({.in = 2, .out = 1});
  optim::Sgd optimizer(net, {.lr = 1e-3});
  Trainer trainer(runtime, net, optimizer,
                  {.precision = Policy::fp16(),
                   .loss_scale = LossScaleOptions::fixed(1),
                   .schedule = optim::Schedule([](std::int64_t k) { return k >= 3 ? 1e5 : 1e-3; }),
                   .on_nan = OnNan::kStop});
  const Tensor batch = Tensor::full({4, 2}, 1e-3);
  const auto loss = [&](const Tensor& x) { return sum(net(x)); };
  trainer.step(batch, loss);
  trainer.step(batch, loss);
  StateDict loaded;
  loaded.put("weight", Tensor::full(net.weight.shape(), -65400));
  loaded.put("bias", net.bias.value().clone());
  nn::load_state_dict(net, loaded);
  EXPECT_THROW(trainer.step(batch, loss), NumericError);
  EXPECT_EQ(net.weight.value().at(0), -65400);
}

/// Initializes its shift from the first batch, as an ActNorm does.
struct FromTheBatch : nn::Module {
  nn::Linear layer{{.in = 4, .out = 4}};
  nn::Parameter shift{Tensor::zeros({4})};
  bool begun = false;
  void visit(nn::Visitor& v) override {
    v("layer", layer);
    v("shift", shift);
  }
  Variable forward(const Variable& x) override {
    if (!std::exchange(begun, true)) shift.mutable_value().copy_from(mean(x, {0}).value());
    return layer(x + shift);
  }
};

TEST(ParameterWrites, AClosureThatWritesOneIsAnError) {
  Runtime runtime({.seed = 1, .threads = 1});
  FromTheBatch net;
  optim::Adam optimizer(net);
  Trainer trainer(runtime, net, optimizer, {});
  const auto loss = [&](const Tensor& x) { return mean(square(net(x))); };
  const std::string text = error_of<ArgumentError>([&] { trainer.step(Tensor::full({2, 4}, 1), loss); });
  EXPECT_NE(text.find("the closure wrote a parameter (shift)"), std::string::npos) << text;
  EXPECT_NE(text.find("nn::Buffer"), std::string::npos) << text;
  // Before the first step it may.
  net.begun = false;
  {
    const NoGradGuard no_grad;
    net(Tensor::full({2, 4}, 1));
  }
  EXPECT_TRUE(trainer.step(Tensor::full({2, 4}, 1), loss).committed);
}

}  // namespace
}  // namespace binade::amp
