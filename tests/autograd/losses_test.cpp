#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/autograd/functions.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/gradcheck.h"
#include "tests/error_text.h"

namespace binade {
namespace {

using test::error_of;

class Losses : public testing::Test {};

TEST_F(Losses, ATargetOutsideTheClassesIsNamedWithItsPosition) {
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 7, 1, 0}, {2, 3});
  const std::string text = error_of<DataError>([&] { cross_entropy(Tensor::zeros({2, 3, 5}), targets); });
  EXPECT_NE(text.find("cross_entropy [loss]"), text.npos) << text;
  EXPECT_NE(text.find("got 7 at (1, 0)"), text.npos) << text;
}

TEST_F(Losses, EveryTargetIgnoredIsNanWithZeroGradient) {
  Variable logits(Tensor::full({2, 3}, 1.0), true);
  const Variable loss = cross_entropy(logits, Tensor::from(std::vector<std::int32_t>{-100, -100}, {2}));
  EXPECT_TRUE(std::isnan(loss.item()));
  backward(loss);
  for (const double g : logits.grad().to_vector<double>()) EXPECT_EQ(g, 0);
}

TEST_F(Losses, AnIgnoredRowMayContainNan) {
  Tensor x = Tensor::zeros({2, 3});
  for (int i = 0; i < 3; ++i) x.mutable_data<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  Variable logits(x, true);
  const Variable loss = cross_entropy(logits, Tensor::from(std::vector<std::int64_t>{-100, 1}, {2}));
  EXPECT_FLOAT_EQ(static_cast<float>(loss.item()), std::log(3.0f));
  backward(loss);
  EXPECT_EQ(logits.grad().at(0), 0);
}

TEST_F(Losses, ANanLogitReachesLossAndGradient) {
  Tensor x = Tensor::zeros({2, 3});
  x.mutable_data<float>()[4] = std::numeric_limits<float>::quiet_NaN();
  Variable logits(x, true);
  const Variable loss = cross_entropy(logits, Tensor::from(std::vector<std::int64_t>{0, 1}, {2}));
  EXPECT_TRUE(std::isnan(loss.item()));
  backward(loss);
  EXPECT_TRUE(std::isnan(logits.grad().at(3)));
  EXPECT_FALSE(std::isnan(logits.grad().at(0)));
}

/// Backward and the recorded derivative only read the saved count of targets. Autograd must not take this for a write.
TEST_F(Losses, CrossEntropyHasMoreThanOneBackward) {
  const auto with_labels = [](const Variable& x) {
    return cross_entropy(x, Tensor::from(std::vector<std::int64_t>{0, 2, -100}, {3}));
  };
  const std::vector<double> start{0.3, -1, 2, 0.5, 0, -0.5, 1, 1, 1};
  const auto leaf = [](const std::vector<double>& values) { return Variable(Tensor::from(values, {3, 3}), true); };
  const Variable once = leaf(start), x = leaf(start), y = leaf(start);
  backward(with_labels(once));
  std::vector<double> twice = once.grad().to_vector<double>();
  for (double& g : twice) g *= 2;
  const Variable loss = with_labels(x);
  backward(loss, 1, {.retain_graph = true});
  backward(loss);
  EXPECT_EQ(x.grad().to_vector<double>(), twice);
  // A penalty on the gradient: grad() records the op's derivative, and later backward() runs the op's backward.
  const auto penalized = [&](const Variable& v) {
    const Variable ce = with_labels(v);
    return ce + sum(square(grad(ce, v, {.create_graph = true})));
  };
  backward(penalized(y));
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < start.size(); ++i) {
    std::vector<double> above = start, below = start;
    above[i] += kStep;
    below[i] -= kStep;
    const double slope = (penalized(leaf(above)).item() - penalized(leaf(below)).item()) / (2 * kStep);
    EXPECT_NEAR(y.grad().at(static_cast<std::int64_t>(i)), slope, 1e-8) << i;
  }
}

// f16 has no number between 0 and 6e-8. The unscaled gradient here is 6e-9: it stays nonzero only if it is multiplied
// by the loss scale before it is rounded.
TEST_F(Losses, CrossEntropyScalesItsF16GradientBeforeRounding) {
  const std::int64_t rows = 1 << 14;
  std::vector<float> values(static_cast<std::size_t>(2 * rows), 0.0f);
  for (std::size_t i = 1; i < values.size(); i += 2) values[i] = -9.25f;
  Variable logits(Tensor::from(values, {rows, 2}).to(DType::f16), true);
  Variable input = logits * 1.0;  // an activation, whose gradient is f16
  const Variable loss = cross_entropy(input, Tensor::zeros({rows}, DType::i64));
  EXPECT_EQ(loss.dtype(), DType::f32);
  backward(loss, 65536.0);
  const double exact = 65536.0 / static_cast<double>(rows) / (1 + std::exp(9.25));
  EXPECT_NEAR(logits.grad().at(1), exact, exact * 0x1p-10);
}

TEST_F(Losses, BceRefusesASigmoidUnderALowPolicyAndNamesTheFix) {
  const Variable logits(Tensor::zeros({4}), true);
  const Tensor targets = Tensor::zeros({4});
  EXPECT_NO_THROW(bce(sigmoid(logits), targets));
  PrecisionPolicy half;
  half.low = DType::f16;
  const PolicyScope scope(half);
  EXPECT_NO_THROW(bce(sigmoid(logits), targets)) << "f32";
  const std::string direct = error_of<ArgumentError>([&] { bce(sigmoid(cast(logits, DType::f16)), targets); });
  EXPECT_NE(direct.find("bce_with_logits"), direct.npos) << direct;
  const std::string through_cast = error_of<ArgumentError>([&] { bce(cast(sigmoid(logits), DType::f16), targets); });
  EXPECT_NE(through_cast.find("bce_with_logits"), through_cast.npos) << through_cast;
  const std::string back = error_of<ArgumentError>(
      [&] { bce(cast(cast(sigmoid(logits), DType::bf16), DType::f32), targets); });
  EXPECT_NE(back.find("rounded to bf16"), back.npos) << back;
  EXPECT_NO_THROW(bce_with_logits(logits, targets));
}

TEST_F(Losses, BceWithLogitsTakesAReductionAsBceDoes) {
  const Tensor logits = Tensor::from({0.5f, -1.0f}), targets = Tensor::from({1.0f, 0.0f});
  const auto values = [](const Variable& losses) { return losses.value().to_vector<float>(); };
  const auto each = values(bce_with_logits(logits, targets, Reduction::kNone));
  EXPECT_EQ(each, values(bce_with_logits(logits, targets, {.reduction = Reduction::kNone})));
  EXPECT_EQ(each.size(), 2u);
  // {} means the default, the mean, both as options and as a reduction.
  EXPECT_EQ(values(bce_with_logits(logits, targets, {})), values(bce_with_logits(logits, targets)));
}

TEST_F(Losses, BceWithLogitsStaysFiniteWhereProbabilitiesSaturate) {
  const Tensor far = Tensor::from(std::vector<float>{100, -100}, {2}),
               targets = Tensor::from(std::vector<float>{0, 1}, {2});
  EXPECT_FLOAT_EQ(static_cast<float>(bce_with_logits(far, targets).item()), 100.0f);
  EXPECT_TRUE(std::isinf(bce(sigmoid(far), targets).item()));  // the singularity gives an infinity and is not clamped
}

TEST_F(Losses, SoftmaxTreatsMinusInfinityAsAMaskAndPropagatesNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor y = softmax(Tensor::from(std::vector<float>{0, -inf, 0, -inf, -inf, -inf}, {2, 3})).value();
  EXPECT_EQ(y.at(0), 0.5);
  EXPECT_EQ(y.at(1), 0);
  EXPECT_TRUE(std::isnan(y.at(4))) << "a row without anything to attend to is an incident, not a zero";
}

TEST_F(Losses, DropoutDrawsTheSameElementsInBackward) {
  Variable x(Tensor::full({100003}, 1.0), true);
  const Variable y = dropout(x, 0.25);
  backward(sum(y));
  double kept = 0;
  for (std::int64_t i = 0; i < y.value().numel(); ++i) {
    ASSERT_EQ(x.grad().at(i), y.value().at(i)) << i;
    kept += y.value().at(i) != 0;
  }
  EXPECT_NEAR(kept / 100003, 0.75, 5 * std::sqrt(0.25 * 0.75 / 100003));  // five standard deviations
}

TEST(Gradcheck, NamesOpInputAndElementOfAWrongDerivative) {
  // gelu's value with relu's derivative: x + (gelu(x) - x without history)
  const auto wrong = [](const std::vector<Variable>& x) {
    return relu(x[0]) + (gelu(x[0]).detach() - relu(x[0]).detach());
  };
  const Tensor x = Tensor::from(std::vector<double>{0.5, -0.5}, {1, 2});
  const GradcheckResult result = gradcheck(wrong, {x});
  EXPECT_FALSE(result.passed);
  EXPECT_NE(result.message.find("gradcheck of add: input 0 (1, 2), element (0, 0)"), result.message.npos)
      << result.message;
  const GradcheckResult right = gradcheck([](const std::vector<Variable>& v) { return gelu(v[0]); }, {x});
  EXPECT_TRUE(right.passed) << right.message;
  EXPECT_EQ(right.checked, 2);
}

}  // namespace
}  // namespace binade
