#include <gtest/gtest.h>

#include <limits>

#include "binade/amp/incident/report.h"
#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/nn/attention.h"
#include "binade/optim/adam.h"
#include "tests/amp/toy.h"

// Diagnosis of planted faults, whose place and cause are known.
namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Model>
struct PlantedIn {
  Runtime runtime{{.seed = 3, .threads = 2}};
  Model model;
  optim::AdamW optimizer;
  Trainer trainer;

  explicit PlantedIn(const TrainerOptions& options)
      : optimizer(model, {.lr = 0.01}), trainer(runtime, model, optimizer, hashed(options)) {}
  static TrainerOptions hashed(TrainerOptions options) {
    options.state_hash = true;
    options.on_nan = OnNan::kStop;
    return options;
  }

  /// Runs a step that cannot be committed and returns its last incident.
  template <class Batch, class Closure>
  Incident failed_step(const Batch& batch, Closure&& closure) {
    EXPECT_THROW(trainer.step(batch, closure), NumericError);
    const std::vector<StepResult> results = trainer.finished();
    for (const StepResult& r : results) EXPECT_EQ(r.state_hash_before, r.state_hash_after);
    EXPECT_TRUE(results.back().incident.has_value());
    return results.back().incident.value_or(Incident{});
  }
  Variable loss(const toy::Batch& b) { return apply_one<toy::SquaredError>({}, {model(b.x), Variable(b.target)}); }
};
using Planted = PlantedIn<toy::Two>;

TEST(Diagnosis, ANanInTheBatchIsBadInputAndNamesItsSample) {
  Planted run({});
  toy::Batch b = toy::batch(1);
  b.x.mutable_data<float>()[5 * 4 + 2] = std::nanf("");
  const Incident incident = run.failed_step(b, [&](const toy::Batch& x) { return run.loss(x); });
  const Diagnosis& d = incident.diagnosis;
  ASSERT_TRUE(d.first_bad.has_value());
  EXPECT_EQ(d.first_bad->direction, "input");
  EXPECT_EQ(d.first_bad->module, "first");
  EXPECT_EQ(d.first_bad->value, "nan");
  EXPECT_EQ(d.first_bad->index, (std::vector<std::int64_t>{5, 2}));
  EXPECT_EQ(d.first_bad->sample, 5);
  EXPECT_EQ(d.cause, CauseClass::kBadInput);
  EXPECT_EQ(d.confidence, Confidence::kProven);
  EXPECT_TRUE(d.reproducible);
}

TEST(Diagnosis, TheSampleIsCountedAcrossMicroBatches) {
  Planted run({});
  toy::Batch bad = toy::batch(1);
  bad.x.mutable_data<float>()[5 * 4 + 2] = std::nanf("");
  const MicroBatches<toy::Batch> parts{{toy::batch(2), bad}};
  const Incident incident = run.failed_step(parts, [&](const toy::Batch& x) { return run.loss(x); });
  const FirstBad& first = incident.diagnosis.first_bad.value();
  EXPECT_EQ(first.micro_batch, 1);
  EXPECT_EQ(first.sample, 8 + 5);
}

TEST(Diagnosis, ANonFiniteWeightIsCorruptedState) {
  Planted run({});
  run.model.second.weight.mutable_value().mutable_data<float>()[7] = static_cast<float>(kInfinity);
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) { return run.loss(x); });
  const FirstBad& first = incident.diagnosis.first_bad.value();
  EXPECT_EQ(first.direction, "state");
  EXPECT_EQ(first.parameter, "second.weight");
  EXPECT_EQ(first.value, "inf");
  EXPECT_EQ(first.step, 0) << "the step before left it so";
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kCorruptedState);
}

TEST(Diagnosis, AnActivationOverflowIsProvedByComputingItsOpInF32) {
  Planted run({.precision = Policy::fp16()});
  // 16 products of about 6000 each: only their sum is beyond 65504.
  run.model.second.weight.mutable_value().fill(3000);
  run.model.first.bias.mutable_value().fill(2);
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) {
    return apply_one<toy::SquaredError>({}, {run.model(x.x) * 1e-5, Variable(x.target)});
  });
  const Diagnosis& d = incident.diagnosis;
  const FirstBad& first = d.first_bad.value();
  EXPECT_EQ(first.module, "second");
  EXPECT_EQ(first.op, "linear");
  EXPECT_EQ(first.direction, "forward");
  EXPECT_EQ(first.value, "inf");
  EXPECT_EQ(first.dtype, "f16");
  EXPECT_EQ(d.cause, CauseClass::kActivationOverflow);
  EXPECT_EQ(d.confidence, Confidence::kProven);
  ASSERT_EQ(d.proof.size(), 2u);
  EXPECT_EQ(d.proof[0].variant, "scale-1");
  EXPECT_FALSE(d.proof[0].finite);
  EXPECT_EQ(d.proof[1].variant, "op-fp32");
  EXPECT_TRUE(d.proof[1].finite);
}

/// Reads each row of a batch as tokens of two values.
struct Attentive : nn::Module {
  nn::Linear first{{.in = 2, .out = 16}}, last{{.in = 16, .out = 2}};
  nn::MultiHeadAttention attention{{.dim = 16, .heads = 2}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("attention", attention);
    v("last", last);
  }
  Variable forward(const Variable& x) override {
    const Variable y = last(attention(first(reshape(x, {x.dim(0), 2, 2}))));
    return slice(reshape(y, {x.dim(0), 4}), 1, 0, 2);
  }
};

TEST(Diagnosis, ProjectionsNameTheModuleWithTheBadValue) {
  PlantedIn<Attentive> run({});
  run.model.attention.key.weight.mutable_value().mutable_data<float>()[7] = std::nanf("");
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) { return run.loss(x); });
  const FirstBad& first = incident.diagnosis.first_bad.value();
  EXPECT_EQ(first.direction, "state");
  EXPECT_EQ(first.module, "attention.key");
  EXPECT_EQ(first.op, "projections");
  EXPECT_EQ(first.parameter, "attention.key.weight");
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kCorruptedState);
}

TEST(Diagnosis, AnOverflowOfProjectionsNamesTheModuleAndTheOpToOverride) {
  PlantedIn<Attentive> run({.precision = Policy::fp16()});
  run.model.attention.value.weight.mutable_value().fill(60000);
  const Diagnosis d = run.failed_step(toy::batch(1), [&](const toy::Batch& x) { return run.loss(x); }).diagnosis;
  EXPECT_EQ(d.first_bad.value().direction, "forward");
  EXPECT_EQ(d.first_bad.value().module, "attention.value");
  EXPECT_EQ(d.first_bad.value().op, "projections");
  EXPECT_EQ(d.first_bad.value().op_path(), "attention") << "what an override names";
  EXPECT_EQ(d.cause, CauseClass::kActivationOverflow);
}

TEST(Diagnosis, ALogOfZeroIsASingularityInEveryPrecision) {
  for (const char* precision : {"fp32", "fp16"}) {
    Planted run({.precision = Policy::by_name(precision)});
    const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) {
      return run.loss(x) - mean(log(relu(-square(run.model(x.x)))));
    });
    const FirstBad& first = incident.diagnosis.first_bad.value();
    EXPECT_EQ(first.op, "log") << precision;
    EXPECT_EQ(first.direction, "forward") << precision;
    EXPECT_EQ(incident.diagnosis.cause, CauseClass::kArithmeticSingularity) << precision;
    EXPECT_EQ(incident.diagnosis.confidence, Confidence::kProven) << precision;
  }
}

TEST(Diagnosis, ASingularityBeforeTheLastWeightIsNotOneOfTheLoss) {
  Planted run({});
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) {
    const Variable h = log(relu(-square(run.model.first(Variable(x.x)))));
    return apply_one<toy::SquaredError>({}, {run.model.second(h), Variable(x.target)});
  });
  EXPECT_EQ(incident.diagnosis.first_bad.value().op, "log");
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kArithmeticSingularity);
}

TEST(Diagnosis, ADivisionByTheConstantZeroIsASingularity) {
  Planted run({});
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) {
    return apply_one<toy::SquaredError>({}, {run.model(softmax(Variable(x.x) / 0.0)), Variable(x.target)});
  });
  EXPECT_EQ(incident.diagnosis.first_bad.value().op, "div_scalar");
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kArithmeticSingularity);
}

TEST(Diagnosis, ALearningRateBeyondF32IsNoOptimizerUnderflow) {
  Planted run({.inject = {"lr@step=1,factor=1e45"}});
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) { return run.loss(x); });
  EXPECT_EQ(incident.diagnosis.first_bad.value().direction, "optimizer");
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kGradientExplosion);
}

TEST(Diagnosis, AConstantRowIsASingularityOfTheNorm) {
  Planted run({});
  toy::Batch b = toy::batch(1);
  for (int c = 0; c < 4; ++c) b.x.mutable_data<float>()[6 * 4 + c] = 1.5f;
  const Incident incident = run.failed_step(b, [&](const toy::Batch& x) {
    return apply_one<toy::SquaredError>({}, {run.model(layer_norm(Variable(x.x), {}, {}, 0.0)), Variable(x.target)});
  });
  const FirstBad& first = incident.diagnosis.first_bad.value();
  EXPECT_EQ(first.op, "layer_norm");
  EXPECT_EQ(first.sample, 6);
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kNormalizationSingularity);
}

TEST(Diagnosis, AFullyMaskedRowIsDistinguishedFromPartlyMaskedRows) {
  Planted run({});
  const toy::Batch b = toy::batch(1);
  Tensor mask = Tensor::zeros({8, 4});
  for (int c = 1; c < 4; ++c)
    for (int row = 0; row < 8; ++row) mask.mutable_data<float>()[row * 4 + c] = static_cast<float>(-kInfinity);
  const auto closure = [&](const toy::Batch& x) {
    const Variable weights = softmax(Variable(x.x) + Variable(mask));
    return apply_one<toy::SquaredError>({}, {run.model(weights), Variable(x.target)});
  };
  EXPECT_TRUE(run.trainer.step(b, closure).committed) << "a mask's -inf is legal";
  run.trainer.finished();
  mask.mutable_data<float>()[3 * 4] = static_cast<float>(-kInfinity);
  const Incident incident = run.failed_step(b, closure);
  const FirstBad& first = incident.diagnosis.first_bad.value();
  EXPECT_EQ(first.op, "softmax");
  EXPECT_EQ(first.sample, 3);
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kFullyMaskedRow);
}

TEST(Diagnosis, AFixedLossScaleThatIsTooLargeIsProvedByAReplayAtScaleOne) {
  Planted run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::fixed(0x1p30)});
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) { return run.loss(x); });
  const Diagnosis& d = incident.diagnosis;
  EXPECT_EQ(d.first_bad.value().direction, "backward");
  EXPECT_EQ(d.cause, CauseClass::kLossScaleOverflow);
  EXPECT_EQ(d.confidence, Confidence::kProven);
}

TEST(Diagnosis, OtherBitsInTheReplayAreNotReproducible) {
  Planted run({});
  int calls = 0;
  const Incident incident = run.failed_step(toy::batch(1), [&](const toy::Batch& x) {
    return ++calls == 1 ? run.loss(x) * kInfinity : run.loss(x);
  });
  EXPECT_FALSE(incident.diagnosis.reproducible);
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kNotReproducible);
}

TEST(Diagnosis, TheReportNamesPlaceCauseAndAdvice) {
  Planted run({});
  toy::Batch b = toy::batch(1);
  b.x.mutable_data<float>()[5 * 4 + 2] = std::nanf("");
  const Incident incident = run.failed_step(b, [&](const toy::Batch& x) { return run.loss(x); });
  const std::string json = report_json(incident);
  for (const char* part : {R"("class":"bad-input")", R"("confidence":"proven")", R"("sample":5)", R"("index":[5, 2])",
                           R"("direction":"input")", R"("reproducible":true)"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  const std::string text = report_markdown(incident);
  EXPECT_NE(text.find("sample 5"), std::string::npos) << text;
  EXPECT_NE(text.find("bad-input (proven)"), std::string::npos) << text;
}

}  // namespace
}  // namespace binade::amp
