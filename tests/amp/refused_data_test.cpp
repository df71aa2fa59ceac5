// A label that is out of range, or a matrix for which an op has no result, is handled like a NaN in the data: the
// sample is found, left out and quarantined.
#include <gtest/gtest.h>

#include "binade/amp/incident/report.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/linalg.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/io/data/loader.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

/// Inputs and labels. Each sample has two rows, so the index of a row differs from the index of its sample.
struct Batch {
  Tensor x{}, labels{};
  io::BatchOrigin origin{};
  Batch without(std::span<const std::int64_t> samples) const {
    std::vector<std::int64_t> rows;
    const std::int64_t count = std::ssize(origin.samples);
    for (const std::int64_t half : {std::int64_t{0}, count})
      for (const std::int64_t sample : samples) rows.push_back(half + sample);
    return {io::without_rows(x, rows), io::without_rows(labels, rows), origin.without(samples)};
  }
};

struct Classifier {
  Runtime runtime{{.seed = 3, .threads = 1}};
  nn::Linear net{{.in = 4, .out = 3}};
  optim::AdamW optimizer{net, {.lr = 0.01}};
  Trainer trainer;
  std::vector<std::int64_t> bad, singular;  // samples with a label out of range; with a singular matrix
  io::Loader<Batch> loader{{.batch = 8, .seed = 5, .order = io::SampleOrder::kShuffled, .samples = 32, .prefetch = 0},
                           [this](const io::BatchOrigin& origin) { return make(origin); }};

  explicit Classifier(TrainerOptions options) : trainer(runtime, net, optimizer, options) { trainer.attach(loader); }
  Batch make(const io::BatchOrigin& origin) const {
    const std::int64_t count = std::ssize(origin.samples);
    Batch batch{Tensor::empty({2 * count, 4}), Tensor::zeros({2 * count}, DType::i64), origin};
    for (std::int64_t row = 0; row < 2 * count; ++row) {
      const std::int64_t sample = origin.samples[static_cast<std::size_t>(row % count)];
      batch.x.narrow(row, 1).copy_from(toy::random({1, 4}, static_cast<std::uint32_t>(100 + sample)));
      if (std::ranges::count(singular, sample) > 0)
        batch.x.narrow(row, 1).copy_from(Tensor::from({{1.f, 2.f, 2.f, 4.f}}));
      const bool wrong = row >= count && std::ranges::count(bad, sample) > 0;
      batch.labels.mutable_data<std::int64_t>()[row] = wrong ? 7 : sample % 3;
    }
    return batch;
  }
  StepResult step() {
    return trainer.step(loader.next(),
                        [&](const Batch& b) { return cross_entropy(net(Variable(b.x)), Variable(b.labels)); });
  }
};

TEST(RefusedData, ALabelOutOfRangeQuarantinesItsSample) {
  Classifier run({});
  run.bad = {17};
  int incidents = 0;
  for (int k = 0; k < 12; ++k) {
    const StepResult result = run.step();
    EXPECT_TRUE(result.committed);
    for (const Incident* incident : result.incidents()) {
      ++incidents;
      EXPECT_EQ(incident->diagnosis.cause, CauseClass::kBadInput);
      EXPECT_EQ(incident->diagnosis.confidence, Confidence::kProven);
      EXPECT_EQ(incident->remedy.action, RemedyAction::kQuarantineSample);
      EXPECT_EQ(incident->remedy.target, "17");
      ASSERT_TRUE(incident->diagnosis.first_bad);
      EXPECT_EQ(incident->diagnosis.first_bad->direction, "input");
      EXPECT_EQ(incident->diagnosis.first_bad->op, "cross_entropy");
      EXPECT_EQ(incident->diagnosis.first_bad->sample_id, 17);
      EXPECT_TRUE(location_of(incident->diagnosis)
                      .starts_with("'cross_entropy' in loss (input): wanted targets from 0 to "
                                   "2"))
          << location_of(incident->diagnosis);
    }
  }
  EXPECT_EQ(incidents, 1) << "the loader does not give it again";
}

TEST(RefusedData, ASingularMatrixQuarantinesItsSample) {
  Classifier run({});
  run.singular = {17};
  int incidents = 0;
  for (int k = 0; k < 12; ++k) {
    const StepResult result = run.trainer.step(run.loader.next(), [&](const Batch& b) {
      const Variable inverses = inverse(reshape(Variable(b.x), {-1, 2, 2}));
      return cross_entropy(run.net(tanh(reshape(inverses, {-1, 4}))), Variable(b.labels));
    });
    EXPECT_TRUE(result.committed);
    for (const Incident* incident : result.incidents()) {
      ++incidents;
      EXPECT_EQ(incident->remedy.action, RemedyAction::kQuarantineSample);
      EXPECT_EQ(incident->remedy.target, "17");
      ASSERT_TRUE(incident->diagnosis.first_bad);
      EXPECT_EQ(incident->diagnosis.first_bad->op, "inverse");
      const std::string location = location_of(incident->diagnosis), report = report_json(*incident);
      EXPECT_NE(location.find("wanted matrices that are not singular, got one (number "), std::string::npos)
          << location;
      EXPECT_EQ(location.find("out of range"), std::string::npos) << location;
      EXPECT_NE(report.find("\"refusal\":\"wanted matrices that are not singular"), std::string::npos) << report;
      EXPECT_NE(incident->diagnosis.advice.find("inverse advises: add a small multiple of the identity"),
                std::string::npos)
          << incident->diagnosis.advice;
    }
  }
  EXPECT_EQ(incidents, 1);
}

/// The matrix is computed from weights only: no sample is to blame.
TEST(RefusedData, AMatrixOfWeightsIsNotBlamedOnASample) {
  Classifier run({});
  const StepResult result = run.trainer.step(run.loader.next(), [&](const Batch& b) {
    const Variable w = narrow(run.net.weight, 1, 0, 3);
    const Variable factor = cholesky(matmul(w, w, {.transpose_b = true}) * -1.0);
    return cross_entropy(run.net(Variable(b.x)), Variable(b.labels)) + sum(factor);
  });
  EXPECT_FALSE(result.committed);
  ASSERT_TRUE(result.incident);
  const Diagnosis& d = result.incident->diagnosis;
  ASSERT_TRUE(d.first_bad);
  EXPECT_EQ(d.first_bad->op, "cholesky");
  EXPECT_FALSE(d.first_bad->sample);
  EXPECT_EQ(d.cause, CauseClass::kArithmeticSingularity);
  EXPECT_EQ(d.confidence, Confidence::kProven);
  EXPECT_EQ(d.first_bad->direction, "forward");
  EXPECT_NE(location_of(d).find("positive definite"), std::string::npos) << location_of(d);
  EXPECT_NE(d.advice.find("computed from weights alone"), std::string::npos) << d.advice;
}

/// The matrix is computed from weights and from all samples together. Neither one sample nor the batch is to blame.
TEST(RefusedData, AMatrixOfTheWholeBatchIsASingularity) {
  Classifier run({});
  const StepResult result = run.trainer.step(run.loader.next(), [&](const Batch& b) {
    const Variable logits = run.net(Variable(b.x));
    const Variable factor = cholesky(matmul(logits, logits, {.transpose_a = true}) * -1.0);
    return cross_entropy(logits, Variable(b.labels)) + sum(factor);
  });
  ASSERT_TRUE(result.incident);
  const Diagnosis& d = result.incident->diagnosis;
  ASSERT_TRUE(d.first_bad);
  EXPECT_EQ(d.first_bad->op, "cholesky");
  EXPECT_EQ(d.cause, CauseClass::kArithmeticSingularity);
  EXPECT_EQ(d.confidence, Confidence::kLikely);
  EXPECT_NE(d.advice.find("whichever sample is left out"), std::string::npos) << d.advice;
}

/// If the closure itself throws after its ops have succeeded, the last op is not to blame.
TEST(RefusedData, AnErrorOfTheClosureNamesNoOp) {
  Classifier run({});
  const StepResult result = run.trainer.step(run.loader.next(), [&](const Batch& b) -> Variable {
    const Variable loss = cross_entropy(run.net(Variable(b.x)), Variable(b.labels));
    throw DataError("my set: wanted a picture, got a sound");
  });
  ASSERT_TRUE(result.incident);
  ASSERT_TRUE(result.incident->diagnosis.first_bad);
  EXPECT_EQ(result.incident->diagnosis.first_bad->op, "");
  EXPECT_EQ(location_of(result.incident->diagnosis), "no op (input): my set: wanted a picture, got a sound");
}

TEST(RefusedData, SkipSkipsTheBatch) {
  Classifier run({.on_nan = OnNan::kSkip});
  run.bad = {17};
  int skipped = 0;
  for (int k = 0; k < 12; ++k) {
    const StepResult result = run.step();
    if (result.committed) continue;
    ++skipped;
    ASSERT_TRUE(result.incident);
    EXPECT_EQ(result.incident->remedy.action, RemedyAction::kSkipBatch);
  }
  EXPECT_EQ(skipped, 3) << "once an epoch";
}

TEST(RefusedData, StopThrowsTheErrorOfTheOpWithTheSample) {
  Classifier run({.on_nan = OnNan::kStop});
  run.bad = {17};
  const auto train = [&] {
    for (int k = 0; k < 4; ++k) run.step();
  };
  try {
    train();
    FAIL() << "wanted a DataError";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("wanted targets from 0 to 2"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("sample 17 of the data set"), std::string::npos) << error.what();
  }
}

TEST(RefusedData, WithoutASampleToBlameSkipsTheBatchAndFinallyThrows) {
  Classifier run({});
  for (std::int64_t sample = 0; sample < 32; ++sample) run.bad.push_back(sample);
  for (int k = 0; k < 5; ++k) EXPECT_FALSE(run.step().committed);
  EXPECT_THROW(run.step(), DataError);
}

}  // namespace
}  // namespace binade::amp
