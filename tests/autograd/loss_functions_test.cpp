#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/gradcheck.h"
#include "tests/error_text.h"

/// Properties of losses that golden values do not cover: precision, second derivatives, edge cases and errors.
namespace binade {
namespace {

using test::error_of;
using Doubles = std::vector<double>;
using Wholes = std::vector<std::int64_t>;

/// A loss as a function of one prediction (2, 3). The targets, or the second prediction, are constant.
struct Loss {
  const char* name;
  std::function<Variable(const Variable& x)> of;
  bool of_two_predictions = false;
};

Tensor values() { return Tensor::from(Doubles{0.3, -0.7, 1.1, 0.25, -1.4, 0.6}, {2, 3}); }
Tensor shares() { return Tensor::from(Doubles{0.2, 0.5, 0.3, 0.6, 0.3, 0.1}, {2, 3}); }
Tensor labels() { return Tensor::from(Wholes{2, 0}, {2}); }
Tensor class_weights() { return Tensor::from(Doubles{0.5, 1, 2}, {3}); }
Tensor signs() { return Tensor::from(Doubles{1, -1, -1, -1, 1, 1}, {2, 3}); }

std::vector<Loss> losses() {
  return {
      {"cross_entropy each",
       [](const Variable& x) { return cross_entropy(x, labels(), {.reduction = Reduction::kNone}); }},
      {"weighted cross_entropy",
       [](const Variable& x) { return cross_entropy(x, labels(), {.label_smoothing = 0.1}, class_weights()); }},
      {"soft cross_entropy", [](const Variable& x) { return cross_entropy(x, shares(), {}, class_weights()); }},
      {"nll", [](const Variable& x) { return nll(log_softmax(x), labels(), {}, class_weights()); }},
      {"weighted bce_with_logits",
       [](const Variable& x) {
         return bce_with_logits(x, shares(), {}, {.weight = class_weights(), .pos_weight = class_weights()});
       }},
      {"weighted bce", [](const Variable& x) { return bce(sigmoid(x), shares(), Reduction::kSum, class_weights()); }},
      {"focal", [](const Variable& x) { return focal(x, shares()); }},
      {"mse each", [](const Variable& x) { return mse(x, shares(), Reduction::kNone); }},
      {"huber each", [](const Variable& x) { return huber(x, shares(), 0.7, Reduction::kNone); }},
      {"kl_div each", [](const Variable& x) { return kl_div(x, shares(), Reduction::kNone) * x; }},
      {"smooth_l1", [](const Variable& x) { return smooth_l1(x, shares(), 0.7); }},
      {"poisson_nll", [](const Variable& x) { return poisson_nll(x, shares(), {.full = true}); }},
      {"gaussian_nll", [](const Variable& x) { return gaussian_nll(x, shares(), softplus(x)); }},
      {"hinge_embedding", [](const Variable& x) { return hinge_embedding(x, signs()); }},
      {"margin_ranking", [](const Variable& x) { return margin_ranking(x, shares(), signs(), 0.15); }, true},
      {"soft_margin", [](const Variable& x) { return soft_margin(x, signs()); }},
      {"multi_margin", [](const Variable& x) { return multi_margin(x, labels(), {.p = 2}, class_weights()); }},
      {"multilabel_margin",
       [](const Variable& x) {
         return multilabel_margin(x, Tensor::from(Wholes{2, -1, 0, 0, 1, -1}, {2, 3}));
       }},
      {"multilabel_soft_margin", [](const Variable& x) { return multilabel_soft_margin(x, shares()); }},
      {"cosine_embedding",
       [](const Variable& x) {
         return cosine_embedding(x, shares(), Tensor::from(Doubles{1, -1}, {2}), -0.9);
       },
       true},
      {"triplet_margin", [](const Variable& x) { return triplet_margin(x, shares(), signs(), {.margin = 3}); }, true},
      {"pairwise_distance", [](const Variable& x) { return pairwise_distance(x, shares()); }, true},
      {"cosine_similarity", [](const Variable& x) { return cosine_similarity(x, shares()); }, true},
      {"tversky", [](const Variable& x) { return tversky(sigmoid(x), shares(), {.alpha = 0.3, .beta = 0.7}); }},
      {"multiclass_dice", [](const Variable& x) { return multiclass_dice(x, labels()); }},
      {"dice_cross_entropy", [](const Variable& x) { return dice_cross_entropy(x, labels()); }},
  };
}

TEST(LossFunctions, HaveFirstAndSecondDerivatives) {
  for (const Loss& loss : losses()) {
    const auto f = [&](const std::vector<Variable>& x) { return loss.of(x[0]); };
    const GradcheckResult first = gradcheck(f, {values()});
    EXPECT_TRUE(first.passed) << loss.name << ": " << first.message;
    const GradcheckResult second = gradgradcheck(f, {values()}, {.rtol = 2e-6, .atol = 1e-6});
    EXPECT_TRUE(second.passed) << loss.name << ": " << second.message;
  }
}

/// A loss of 16-bit predictions, under a 16-bit policy, has the bits of the loss of the same predictions in f32.
TEST(LossFunctions, ComputeInF32WhateverThePolicy) {
  for (const Loss& loss : losses())
    for (const DType low : {DType::f16, DType::bf16}) {
      const std::string name = loss.name;
      if (name == "nll" || name == "weighted bce" || name == "tversky" || name == "gaussian_nll" ||
          name == "kl_div each")
        continue;  // they also call other ops, which store 16 bits
      const Tensor x = values().to(low);
      const Variable wide = loss.of(Variable(x.to(DType::f32)));
      PrecisionPolicy policy;
      policy.low = low;
      const PolicyScope scope(policy);
      const Variable got = loss.of(Variable(x));
      const bool two = loss.of_two_predictions;  // the second, constant prediction is f64
      EXPECT_EQ(wide.dtype(), two ? DType::f64 : DType::f32) << name << ": targets and weights are f64";
      EXPECT_EQ(got.dtype(), wide.dtype()) << name;
      EXPECT_EQ(got.value().to_vector<double>(), wide.value().to_vector<double>()) << name;
    }
}

TEST(LossFunctions, AWeightedMeanOfUnreducedLossesIsTheReducedOne) {
  const Variable x = values();
  const Doubles each = cross_entropy(x, labels(), {.reduction = Reduction::kNone}).value().to_vector<double>();
  ASSERT_EQ(each.size(), 2u);
  EXPECT_DOUBLE_EQ(cross_entropy(x, labels(), {.reduction = Reduction::kSum}).item(), each[0] + each[1]);
  EXPECT_DOUBLE_EQ(cross_entropy(x, labels(), {.reduction = Reduction::kBatchMean}).item(), (each[0] + each[1]) / 2);
  EXPECT_DOUBLE_EQ(cross_entropy(x, labels(), {}, class_weights()).item(), (2 * each[0] + 0.5 * each[1]) / 2.5);
}

TEST(LossFunctions, ALossWithoutElementsIsNanAsAMeanAndElse0) {
  const Tensor none = Tensor::zeros({0, 3}), no_labels = Tensor::zeros({0}, DType::i64);
  const Variable x(none, true);
  const std::vector<std::function<Variable(Reduction r)>> all{
      [&](Reduction r) { return mse(x, none, r); },
      [&](Reduction r) { return soft_margin(x, none, r); },
      [&](Reduction r) { return cross_entropy(x, no_labels, {.reduction = r}); },
      [&](Reduction r) { return cross_entropy(x, no_labels, {.reduction = r}, Tensor::zeros({3})); },
      [&](Reduction r) { return nll(x, no_labels, {.reduction = r}); },
      [&](Reduction r) { return multi_margin(x, no_labels, {.reduction = r}); },
      [&](Reduction r) { return cosine_embedding(x, none, no_labels, 0, r); }};
  for (const auto& f : all) {
    EXPECT_TRUE(std::isnan(f(Reduction::kMean).item()));
    EXPECT_EQ(f(Reduction::kSum).item(), 0);
    const Variable each = f(Reduction::kNone);
    EXPECT_EQ(each.value().numel(), 0);
    backward(sum(each));
    EXPECT_EQ(x.grad().shape(), (Shape{0, 3}));
  }
}

TEST(LossFunctions, IgnoredRowsCountNothingEvenIfTheyAreNan) {
  Tensor x = values().to(DType::f32);
  for (int i = 0; i < 3; ++i) x.mutable_data<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  const Tensor one = Tensor::from(Wholes{-100, 1}, {2}), none = Tensor::from(Wholes{-100, -100}, {2});
  const std::vector<std::function<Variable(const Variable& v, const Tensor& t)>> all{
      [](const Variable& v, const Tensor& t) { return cross_entropy(v, t, {.reduction = Reduction::kSum}); },
      [](const Variable& v, const Tensor& t) { return cross_entropy(v, t, {}, class_weights()); },
      [](const Variable& v, const Tensor& t) { return cross_entropy(v, t, {.label_smoothing = 0.1}, class_weights()); },
      [](const Variable& v, const Tensor& t) { return nll(v, t, {}, class_weights()); },
      [](const Variable& v, const Tensor& t) { return multiclass_dice(v, t); }};
  for (const auto& f : all) {
    const Variable v(x, true);
    const Variable loss = f(v, one);
    EXPECT_TRUE(std::isfinite(loss.item()));
    backward(loss);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(v.grad().at(i), 0) << i;
    for (int i = 3; i < 6; ++i) EXPECT_TRUE(std::isfinite(v.grad().at(i))) << i;
    const Variable again(x, true);
    const Variable g = grad(f(again, one), again, {.create_graph = true});
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(g.value().at(i), v.grad().at(i), 1e-6) << i;
    if (!g.requires_grad()) continue;  // of nll()
    backward(sum(square(g)));
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(std::isfinite(again.grad().at(i))) << i;
  }
  EXPECT_TRUE(std::isnan(cross_entropy(values(), none, {}, class_weights()).item()));
  EXPECT_TRUE(std::isnan(nll(values(), none).item()));
  EXPECT_EQ(cross_entropy(values(), none, {.reduction = Reduction::kSum}).item(), 0);
  EXPECT_EQ(cross_entropy(values(), none, {.reduction = Reduction::kNone}).value().to_vector<double>(),
            (Doubles{0, 0}));
}

/// Returns the derivative of f at x, computed as a recorded function.
Tensor recorded_gradient(const std::function<Variable(const Variable&)>& f, const Tensor& x) {
  const Variable v(x, true);
  return grad(f(v), v, {.create_graph = true}).value();
}

TEST(LossFunctions, RecordedGradientsAreThoseOfTheOpWhereItIsSpecial) {
  const Tensor ends = Tensor::from(Doubles{0, 1, 1, 0, 0.5}, {5}), targets = Tensor::from(Doubles{0, 1, 0, 1, 1}, {5});
  const auto of_bce = [&](const Variable& x) { return bce(x, targets, Reduction::kSum); };
  const Variable x(ends, true);
  backward(of_bce(x));
  EXPECT_EQ(recorded_gradient(of_bce, ends).to_vector<double>(), x.grad().to_vector<double>());
  EXPECT_EQ(x.grad().at(0), 1) << "1 / (1 - 0)";
  // The mean over 100,000 elements is a gradient below the smallest number of f16, until the loss scale multiplies it.
  const auto of_l1 = [](const Variable& v) { return l1(v, Tensor::zeros(v.shape(), DType::f16)) * std::exp2(15); };
  const Tensor low = Tensor::full({100000}, 1, DType::f16);
  const Variable y(low, true);
  backward(of_l1(y));
  EXPECT_GT(y.grad().at(0), 0.3);
  EXPECT_EQ(recorded_gradient(of_l1, low).at(0), y.grad().at(0));
}

TEST(LossFunctions, WholeTargetsAreExactBesidePredictionsInDouble) {
  const Tensor x = Tensor::from(Doubles{1}, {1}), t = Tensor::from(Wholes{16777217}, {1});  // 2^24 + 1
  EXPECT_EQ(poisson_nll(x, t).item(), std::exp(1.0) - 16777217);
  EXPECT_EQ(gaussian_nll(x, t, Tensor::full({1}, 1, DType::f64)).item(), 16777216.0 * 16777216.0 / 2);
  EXPECT_EQ(recorded_gradient([&](const Variable& v) { return mse(v, t); }, x).item(), -2.0 * 16777216);
}

TEST(LossFunctions, FocalHasAGradientWhereItsLogitsAreSaturated) {
  for (const double gamma : {0.5, 1.0, 1.5, 2.0}) {
    const Variable x(Tensor::from({200.0f, -200.0f, 90.0f}, {3}), true);
    const Variable g = grad(focal(x, Tensor::from({1.0f, 0.0f, 1.0f}, {3}), {.gamma = gamma}), x,
                            {.create_graph = true});
    backward(sum(g));
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(g.value().at(i), 0, 1e-30) << gamma;
      EXPECT_NEAR(x.grad().at(i), 0, 1e-30) << gamma;
    }
  }
}

TEST(LossFunctions, ErrorsNameTheLossAndWhatItWanted) {
  const auto expect = [](const std::string& text, const std::string& begin) {
    EXPECT_EQ(text.substr(0, begin.size()), begin) << text;
  };
  const Tensor x = values(), bad = Tensor::from(Wholes{1, 3}, {2});
  expect(error_of<DataError>([&] { nll(x, bad); }), "nll [loss]: wanted indices in [0, 3)");
  expect(error_of<DataError>([&] { multi_margin(x, bad); }), "multi_margin [loss]: wanted indices in [0, 3)");
  expect(error_of<DataError>([&] { multiclass_dice(x, bad); }), "multiclass_dice [loss]: wanted indices in [0, 3)");
  expect(error_of<DataError>([&] { cross_entropy(x, bad, {}, class_weights()); }),
         "cross_entropy [loss]: wanted targets from 0 to 2 (or ignore_index -100), got 3 at (1)");
  expect(error_of<ShapeError>([&] { cross_entropy(x, labels(), {}, Tensor::zeros({2})); }),
         "cross_entropy [loss]: wanted one weight for each of 3 classes, got (2)");
  expect(error_of<ArgumentError>([&] { cross_entropy(x, shares(), {.ignore_index = 0}); }),
         "cross_entropy [loss]: wanted no ignore_index with targets that are probabilities, got 0");
  expect(error_of<ArgumentError>([&] { cross_entropy(x, shares(), {.label_smoothing = 2}); }),
         "cross_entropy [loss]: wanted 0 <= label_smoothing <= 1, got 2");
  expect(error_of<ShapeError>([&] {
           bce_with_logits(x, shares(), {}, {.weight = Tensor::zeros({4, 2, 3})});
         }),
         "bce_with_logits [loss]: wanted a weight that broadcasts to (2, 3), got (4, 2, 3)");
  expect(error_of<ArgumentError>([&] { bce_with_logits(x, x, {.pos_weight = 2}, {.pos_weight = class_weights()}); }),
         "bce_with_logits [loss]: wanted one pos_weight, got a tensor and the number 2");
  expect(error_of<DTypeError>([&] { soft_margin(labels(), labels()); }),
         "soft_margin [loss]: wanted a floating prediction, got i64");
  expect(error_of<ShapeError>([&] { smooth_l1(x, Tensor::zeros({3})); }),
         "smooth_l1 [loss]: wanted a target of the prediction's shape (2, 3), got (3)");
  expect(error_of<DTypeError>([&] { multiclass_dice(x, shares()); }),
         "multiclass_dice [loss]: wanted i64, i32 or u8 targets, got f64");
  expect(error_of<DataError>([&] { gaussian_nll(x, x, x); }), "gaussian_nll [loss]: wanted variances of at least 0");
  expect(error_of<ArgumentError>([&] { multi_margin(x, labels(), {.p = 3}); }),
         "multi_margin [loss]: wanted p of 1 or 2, got 3");
  EXPECT_THROW(mse(x, Variable()), ArgumentError);
  expect(error_of<ArgumentError>([&] { nll(x, Variable()); }),
         "nll [loss]: wanted targets, got an undefined variable; assign it first");
  expect(error_of<ArgumentError>([&] { triplet_margin(x, Variable(), x); }),
         "triplet_margin [loss]: wanted positive, got an undefined variable");
  expect(error_of<ShapeError>([&] {
           triplet_margin(x, x, Tensor::zeros({3, 3}));
         }),
         "triplet_margin [loss]: wanted inputs of one shape, got (2, 3) and (3, 3)");
  expect(error_of<ShapeError>([&] {
           margin_ranking(Tensor::zeros({2, 1}), Tensor::zeros({2, 1}), Tensor::zeros({2}));
         }),
         "margin_ranking [loss]: wanted a, b and targets of as many dimensions, got (2, 1), (2, 1) and (2)");
  expect(error_of<ShapeError>([&] { cross_entropy(x, Tensor::zeros({2})); }),
         "cross_entropy [loss]: wanted targets that are class indices (i64, i32 or u8) or probabilities of the "
         "logits' shape (2, 3), got f32 (2)");
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  expect(error_of<DataError>([&] {
           multi_margin(x, Tensor::from(Wholes{0, kLeast}, {2}));
         }),
         "multi_margin [loss]: wanted indices in [0, 3)");
  expect(error_of<ShapeError>([&] {
           multi_margin(Tensor::zeros({2, 0}), labels());
         }),
         "multi_margin [loss]: wanted one class or more, got (2, 0)");
  expect(error_of<ArgumentError>([&] { focal(x, x, {.gamma = std::numeric_limits<double>::infinity()}); }),
         "focal [loss]: wanted a finite gamma >= 0");
  expect(error_of<DTypeError>([&] {
           ctc(log_softmax(Variable(Tensor::zeros({4, 1, 3}))), labels(), Tensor::from(Wholes{4}, {1}),
               Tensor::zeros({1}));
         }),
         "ctc [loss]: wanted i64, i32 or u8 target_lengths, got f32");
}

class Ctc : public testing::Test {
 protected:
  const Tensor x = log_softmax(Variable(Tensor::from(
                                   Doubles{0.1, 0.7, -0.3, 0.5, 0.2, 0.9, -0.4, 0.3, 0.8, 0.6, -0.2, 0.4}, {4, 1, 3})))
                       .value();
  static Tensor lengths(std::int64_t n) { return Tensor::from(Wholes{n}, {1}); }
  static Tensor target(Wholes values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return Tensor::from(values, {1, n});
  }
};

TEST_F(Ctc, ATargetLongerThanItsInputHasNoPath) {
  const Variable v(x, true);
  const Tensor three = target({1, 1, 2});  // needs a blank between the equal labels: 4 steps
  EXPECT_TRUE(std::isfinite(ctc(v, three, lengths(4), lengths(3)).item()));
  const Variable infinite = ctc(v, three, lengths(3), lengths(3));
  EXPECT_EQ(infinite.item(), std::numeric_limits<double>::infinity());
  backward(infinite);
  EXPECT_TRUE(std::isnan(v.grad().at(0)));
  EXPECT_EQ(v.grad().at(9), 0) << "beyond the input";
  const Variable zero(x, true);
  const Variable loss = ctc(zero, three, lengths(3), lengths(3), {.zero_infinity = true});
  EXPECT_EQ(loss.item(), 0);
  backward(loss);
  EXPECT_EQ(zero.grad().to_vector<double>(), Doubles(12, 0));
}

TEST_F(Ctc, EmptyInputsAndTargets) {
  EXPECT_EQ(ctc(x, target({1}), lengths(0), lengths(0)).item(), 0);
  EXPECT_TRUE(std::isinf(ctc(x, target({1}), lengths(0), lengths(1)).item()));
  const Tensor no_samples = Tensor::zeros({4, 0, 3}), none = Tensor::zeros({0}, DType::i64);
  const Variable each = ctc(no_samples, Tensor::zeros({0, 2}, DType::i64), none, none, {.reduction = Reduction::kNone});
  EXPECT_EQ(each.shape(), Shape{0});
  EXPECT_TRUE(std::isnan(ctc(no_samples, none, none, none).item()));
}

TEST_F(Ctc, LongInputsDoNotUnderflow) {
  constexpr std::int64_t kSteps = 20000;
  const Variable v(log_softmax(Variable(Tensor::zeros({kSteps, 1, 2}))).value(), true);
  const Variable loss = ctc(v, target({1}), lengths(kSteps), lengths(1), {.reduction = Reduction::kSum});
  // Each path has the probability 2^-steps. A path fits if its labels form one run: steps (steps + 1) / 2 paths do.
  const double paths = kSteps * (kSteps + 1.0) / 2;
  EXPECT_NEAR(loss.item(), kSteps * std::log(2.0) - std::log(paths), 1e-3);
  backward(loss);
  EXPECT_NEAR(v.grad().at(0) + v.grad().at(1), -1, 1e-5) << "the classes of a step share all paths";
}

TEST_F(Ctc, BadDataIsNamedWithItsPosition) {
  const auto text = [&](const Tensor& t, std::int64_t input, std::int64_t labels) {
    return error_of<DataError>([&] { ctc(x, t, lengths(input), lengths(labels)); });
  };
  EXPECT_EQ(text(target({1, 3}), 4, 2),
            "ctc [loss]: wanted targets from 0 to 2 other than the blank 0, got 3 at (0, 1)");
  EXPECT_EQ(text(target({0, 1}), 4, 2),
            "ctc [loss]: wanted targets from 0 to 2 other than the blank 0, got 0 at (0, 0)");
  EXPECT_EQ(text(target({1, 2}), 5, 2),
            "ctc [loss]: wanted input lengths from 0 to 4 (the steps of the log-probabilities), got 5 for sample 0");
  EXPECT_EQ(text(target({1, 2}), 4, 3),
            "ctc [loss]: wanted target lengths from 0 to 2 (the extent of the targets), got 3 for sample 0");
  EXPECT_NO_THROW(ctc(x, target({1, 7}), lengths(4), lengths(1))) << "7 is beyond the length";
  const Tensor flat = Tensor::from(Wholes{1, 2}, {2});
  EXPECT_EQ(error_of<DataError>([&] { ctc(x, flat, lengths(4), lengths(1)); }),
            "ctc [loss]: wanted target lengths that add up to the 2 targets, got 1");
  EXPECT_THROW(ctc(x, target({1}), lengths(4), lengths(1), {.blank = 3}), ArgumentError);
  EXPECT_THROW(ctc(x, Tensor::zeros({1, 1}), lengths(4), lengths(1)), DTypeError);
  EXPECT_THROW(ctc(x, target({1}), Tensor::from(Wholes{4, 4}, {2}), lengths(1)), ShapeError);
}

}  // namespace
}  // namespace binade
