#include "binade/nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/nn/linear.h"
#include "binade/optim/adam.h"
#include "tests/amp/toy.h"

/// Training steps of a recurrent model: learning in every precision, determinism, and faults in the middle of a
/// sequence.
namespace binade::amp {
namespace {

struct Batch {
  Tensor x, target;
};

/// Returns batch k of sequences of different lengths: the target is the sign of the sum of a sequence.
Batch batch(std::uint32_t k) {
  Batch b{toy::random({8, 6, 2}, 100 + k), Tensor::zeros({8, 1})};
  for (std::int64_t i = 0; i < 8; ++i) {
    double sum = 0;
    for (std::int64_t t = 0; t < 6; ++t) sum += b.x.at((i * 6 + t) * 2);
    b.target.mutable_data<float>()[i] = sum > 0 ? 1.0f : 0.0f;
  }
  return b;
}

template <class Layers>
struct Reader : nn::Module {
  Layers layers{{.in = 2, .hidden = 8, .layers = 2, .bidirectional = true}};
  nn::Linear head{{.in = 16, .out = 1}};
  void visit(nn::Visitor& v) override {
    v("layers", layers);
    v("head", head);
  }
  Variable forward(const Variable& x) override {
    const Variable y = layers(x);
    return head(reshape(narrow(y, 1, 5, 1), {x.dim(0), 16}));
  }
};

template <class Layers>
struct Training {
  Runtime runtime;
  Reader<Layers> model;
  optim::AdamW optimizer;
  Trainer trainer;

  explicit Training(const Policy& precision, int threads = 1)
      : runtime({.seed = 3, .threads = threads}),
        optimizer(model, {.lr = 0.02}),
        trainer(runtime, model, optimizer, {.precision = precision, .state_hash = true, .on_nan = OnNan::kStop}) {}
  StepResult step(const Batch& b) {
    return trainer.step(b, [&](const Batch& x) { return bce_with_logits(model(x.x), x.target); });
  }
  /// Runs a step that cannot be committed and returns its incident.
  Incident failed_step(const Batch& b) {
    EXPECT_THROW(step(b), NumericError);
    const std::vector<StepResult> results = trainer.finished();
    EXPECT_EQ(results.back().state_hash_before, results.back().state_hash_after) << "a trace was left";
    return results.back().incident.value_or(Incident{});
  }
};

template <class Layers>
class RecurrentTraining : public ::testing::Test {};
using Kinds = ::testing::Types<nn::Rnn, nn::Lstm, nn::Gru>;
TYPED_TEST_SUITE(RecurrentTraining, Kinds);

TYPED_TEST(RecurrentTraining, LearnsInEveryPrecision) {
  for (const Policy& precision : {Policy::fp32(), Policy::fp16(), Policy::bf16()}) {
    Training<TypeParam> run(precision);
    double first = 0, last = 0;
    for (std::uint32_t k = 0; k < 150; ++k) {
      const double loss = run.step(batch(k)).loss;
      (k < 20 ? first : last) += k < 20 || k >= 130 ? loss / 20 : 0;
    }
    EXPECT_LT(last, 0.6 * first) << precision.name;
  }
}

TYPED_TEST(RecurrentTraining, ThreadsDoNotShowInTheBits) {
  std::string one;
  for (const int threads : {1, 2, 3}) {
    Training<TypeParam> run(Policy::bf16(), threads);
    for (std::uint32_t k = 0; k < 3; ++k) run.step(batch(k));
    if (threads == 1) one = run.trainer.state_hash();
    EXPECT_EQ(run.trainer.state_hash(), one) << threads;
  }
}

TYPED_TEST(RecurrentTraining, ANanInTheMiddleOfASequenceAbortsTheStepAndIsTracedToItsSample) {
  Training<TypeParam> run(Policy::fp32());
  run.step(batch(0));
  Batch bad = batch(1);
  bad.x.mutable_data<float>()[(5 * 6 + 3) * 2] = std::nanf("");
  const Incident incident = run.failed_step(bad);
  ASSERT_TRUE(incident.diagnosis.first_bad.has_value());
  const FirstBad& first = *incident.diagnosis.first_bad;
  EXPECT_EQ(first.direction, "input");
  EXPECT_EQ(first.module, "layers");
  EXPECT_EQ(first.sample, 5);
  EXPECT_EQ(first.index, (std::vector<std::int64_t>{5, 3, 0}));
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kBadInput);
}

/// The products of sample 5 overflow f32: x w_ih^T is inf at position 3, and h w_hh^T is -inf after a position whose h
/// is not 0. Inside the op, their sum is NaN. In all other samples h stays 0.
TYPED_TEST(RecurrentTraining, ANanThatTheOpMakesNamesTheOp) {
  Training<TypeParam> run(Policy::fp32());
  run.step(batch(0));
  Batch bad = batch(1);
  float* x = bad.x.mutable_data<float>();
  for (std::int64_t i = 0; i < 8 * 6; ++i) x[2 * i] = 0;
  x[(5 * 6 + 2) * 2] = 50;
  x[(5 * 6 + 3) * 2] = 3e38f;
  for (const auto& [name, p] : nn::named_parameters(run.model)) {
    if (name == "layers.weight_hh_l0") p->mutable_value().fill(-3e38);
    if (name == "layers.bias_ih_l0" || name == "layers.bias_hh_l0") p->mutable_value().fill(0);
    if (name != "layers.weight_ih_l0") continue;
    float* w = p->mutable_value().template mutable_data<float>();
    for (std::int64_t row = 0; row < p->dim(0); ++row) {
      w[2 * row] = row / 8 == 1 ? 0.0f : 2.0f;  // gate z of the GRU stays 0.5
      w[2 * row + 1] = 0;
    }
  }
  const Incident incident = run.failed_step(bad);
  ASSERT_TRUE(incident.diagnosis.first_bad.has_value());
  const FirstBad& first = *incident.diagnosis.first_bad;
  const std::string op = std::is_same_v<TypeParam, nn::Rnn>    ? "rnn"
                         : std::is_same_v<TypeParam, nn::Lstm> ? "lstm"
                                                               : "gru";
  EXPECT_EQ(first.direction, "forward");
  EXPECT_EQ(first.op, op);
  EXPECT_EQ(first.module, "layers");
  EXPECT_EQ(first.value, "nan");
  EXPECT_EQ(first.sample, 5);
}

}  // namespace
}  // namespace binade::amp
