#include "binade/autograd/inference_mode.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/error_text.h"
#include "tests/threads/small_training.h"

namespace binade {
namespace {

using test::error_of;

using test::MixedModel;

class InferenceModes : public ::testing::Test {
 protected:
  Tensor predict() { return model_(x_).value(); }

  Runtime runtime_{{.seed = 1}};
  MixedModel model_;
  Tensor x_ = test::image(1, 3);
};

TEST_F(InferenceModes, ComputeTheSameBitsAndRecordNothing) {
  model_.eval();
  for (const char* policy : {"fp32", "fp16", "bf16", "fp8"}) {
    const PolicyScope scope(amp::Policy::by_name(policy));
    const Tensor expected = predict();
    const InferenceMode mode;
    const Variable y = model_(x_);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_FALSE(y.value().counts_writes());
    EXPECT_TRUE(test::same_bits(y.value(), expected)) << policy;
  }
}

TEST_F(InferenceModes, NestAndApplyToOneThread) {
  EXPECT_FALSE(InferenceMode::active());
  {
    const InferenceMode outer;
    { const InferenceMode inner; }
    EXPECT_TRUE(InferenceMode::active());
    EXPECT_FALSE(grad_enabled());
    std::thread([] {
      EXPECT_FALSE(InferenceMode::active());
      EXPECT_TRUE(grad_enabled());
    }).join();
  }
  EXPECT_FALSE(InferenceMode::active());
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(Tensor::zeros({1}).counts_writes());
}

TEST_F(InferenceModes, RefuseBackward) {
  const Variable loss = mean(model_(x_));
  Variable y;
  {
    const InferenceMode mode;
    model_.eval();
    y = mean(model_(x_));
    EXPECT_EQ(
        error_of<AutogradError>([&] { backward(loss); }),
        "backward: not possible inside an InferenceMode; compute loss and gradients outside, or inside a GradGuard");
  }
  EXPECT_EQ(error_of<AutogradError>([&] { backward(y); }),
            "backward: the output has no history, because it was computed inside an InferenceMode; compute it outside");
  EXPECT_EQ(error_of<AutogradError>([&] { backward(loss); }), "no error");
}

/// An op that would save a tensor of an InferenceMode for backward throws and names the remedy.
TEST_F(InferenceModes, MakeTensorsThatBackwardCannotSave) {
  Tensor y;
  {
    const InferenceMode mode;
    y = (Variable(x_) * 2.0).value();
  }
  const Variable w(Tensor::full({3}, 2), true);
  EXPECT_EQ(
      error_of<AutogradError>([&] { w* y; }),
      "autograd: backward needs a tensor that was made in an InferenceMode, and such tensors do not count writes in "
      "place; pass its clone(), or make it under a NoGradGuard");
  EXPECT_EQ(error_of<AutogradError>([&] { backward(mean(w * y.clone())); }), "no error");
}

TEST_F(InferenceModes, RefuseAnUpdateOfStatistics) {
  const Tensor before = model_.norm.running_mean.value().clone();
  {
    const InferenceMode mode;
    EXPECT_EQ(
        error_of<AutogradError>([&] { predict(); }),
        "an update of statistics or scales [norm]: not possible inside an InferenceMode; call eval() on the model "
        "first");
  }
  EXPECT_TRUE(test::same_bits(model_.norm.running_mean.value(), before));
}

TEST_F(InferenceModes, RefuseStepsAndOptimizers) {
  test::SmallTraining training(runtime_, "fp32");
  training.steps(1);
  backward(mean(training.net(x_)));
  {
    const InferenceMode mode;
    EXPECT_EQ(error_of<AutogradError>([&] { training.optimizer.step(); }),
              "Optimizer::step: not possible inside an InferenceMode; end it before the step");
    EXPECT_EQ(error_of<AutogradError>([&] { training.steps(1); }),
              "Trainer::step: not possible inside an InferenceMode; end it before the step");
    EXPECT_EQ(error_of<AutogradError>([&] { optim::AdamW(model_, optim::AdamWOptions{}); }),
              "an optimizer: not possible inside an InferenceMode; make it outside");
  }
}

TEST_F(InferenceModes, AllowGradientsInsideAGradGuard) {
  model_.eval();
  const Tensor expected = [&] {
    Variable x(x_, true);
    backward(mean(model_(x)));
    return x.grad();
  }();
  const InferenceMode mode;
  const GradGuard grad;
  Variable x(x_, true);
  backward(mean(model_(x)));
  EXPECT_TRUE(test::same_bits(x.grad(), expected));
}

/// A model that is made inside an InferenceMode can be trained later.
TEST_F(InferenceModes, MakeParametersThatCanBeTrained) {
  std::unique_ptr<MixedModel> model;
  {
    const InferenceMode mode;
    const PolicyScope policy(amp::Policy::bf16());
    model = std::make_unique<MixedModel>();
    model->eval();
    (*model)(x_);
  }
  model->train();
  optim::AdamW optimizer(*model, {.lr = 0.1f});
  const PolicyScope policy(amp::Policy::bf16());
  const Tensor before = (*model)(x_).value();
  backward(mean((*model)(x_)));
  optimizer.step();
  EXPECT_FALSE(test::same_bits((*model)(x_).value(), before)) << "16-bit copies must follow the weights";
}

/// A tensor that is made in Trainer::evaluate can be used in a later step.
TEST_F(InferenceModes, OfATrainersEvaluationMakeTensorsForLaterSteps) {
  test::SmallTraining training(runtime_, "fp32");
  Tensor kept;
  training.trainer.evaluate([&] {
    kept = (Variable(x_) * 2.0).value();
    EXPECT_NE(error_of<AutogradError>([&] { training.optimizer.step(); }), "no error");
    training.net.train();
    EXPECT_NE(error_of<AutogradError>([&] { training.net(x_); }), "no error") << "statistics outside of a step";
  });
  EXPECT_EQ(error_of<AutogradError>([&] { backward(mean(Variable(Tensor::full({3}, 2), true) * kept)); }), "no error");
}

}  // namespace
}  // namespace binade
