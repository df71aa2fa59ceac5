#include "binade/amp/warnings/evaluation_mismatch.h"

#include <gtest/gtest.h>

#include "binade/autograd/functions/losses.h"
#include "binade/nn/batch_norm.h"
#include "tests/amp/toy.h"

/// A batch norm whose running statistics do not describe its batches is reported.
namespace binade::amp {
namespace {

struct Net : nn::Module {
  nn::Linear first{{.in = 4, .out = 16}}, second{{.in = 16, .out = 2}};
  nn::BatchNorm1d norm{{.channels = 16}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("norm", norm);
    v("second", second);
  }
  Variable forward(const Variable& x) override { return second(relu(norm(first(x)))); }
};

/// Trains steps from … to, starting from `state`. Adds a number up to `brightness`, different for each batch, to the
/// inputs of the batch. Returns the warnings.
std::vector<Warning> warnings(float brightness, std::int64_t from, std::int64_t to, StateDict& state,
                              int micro_batches = 1) {
  Runtime runtime({.seed = 1, .threads = 1});
  Net net;
  optim::AdamW optimizer(net, {.lr = 1e-3});
  Trainer trainer(runtime, net, optimizer, {.precision = Policy::fp32()});
  if (!state.empty()) trainer.load_state(state);
  std::vector<Warning> found;
  std::uint32_t k = static_cast<std::uint32_t>(from * micro_batches);
  while (trainer.steps() < to) {
    std::vector<toy::Batch> parts;
    for (int i = 0; i < micro_batches; ++i) {
      toy::Batch b = toy::batch(k, 16);
      const float added = toy::random({1}, 9000 + k++, brightness).data<float>()[0];
      for (std::int64_t at = 0; at < b.x.numel(); ++at) b.x.mutable_data<float>()[at] += added;
      parts.push_back(std::move(b));
    }
    const StepResult result = trainer.step(MicroBatches<toy::Batch>{parts},
                                           [&](const toy::Batch& b) { return mse(net(b.x), Variable(b.target)); });
    for (const Warning& w : result.warnings)
      if (w.kind == WarningKind::kEvaluationMismatch) found.push_back(w);
  }
  state = trainer.state();
  return found;
}

std::vector<Warning> warnings_of_run(float brightness, int micro_batches = 1) {
  StateDict state;
  return warnings(brightness, 0, 300, state, micro_batches);
}

TEST(EvaluationMismatch, OfVeryDifferentBatchesIsReportedOnce) {
  for (const int micro_batches : {1, 2}) {
    const std::vector<Warning> found = warnings_of_run(100, micro_batches);
    ASSERT_EQ(found.size(), 1u) << micro_batches;
    EXPECT_EQ(found[0].module, "norm");
    EXPECT_GE(found[0].step, 150);
  }
}

TEST(EvaluationMismatch, OfAHealthyRunIsNotReported) {
  EXPECT_TRUE(warnings_of_run(0).empty());
  EXPECT_TRUE(warnings_of_run(1).empty());
}

TEST(EvaluationMismatch, CountContinuesInAResumedRun) {
  StateDict whole, parts;
  const std::vector<Warning> expected = warnings(100, 0, 300, whole);
  std::vector<Warning> found = warnings(100, 0, 120, parts);
  for (const Warning& w : warnings(100, 120, 300, parts)) found.push_back(w);
  ASSERT_EQ(expected.size(), 1u);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].step, expected[0].step);
  EXPECT_EQ(found[0].what, expected[0].what);
}

TEST(EvaluationMismatch, AnImplausibleStateIsRefused) {
  StateDict bad;
  bad.put("paths", std::string("norm\n"));
  bad.put("checks", StateDict::Integers{1, 2});
  bad.put("reported", StateDict::Integers{0});
  EXPECT_THROW(EvaluationMismatch().load_state(bad), CheckpointError);
}

}  // namespace
}  // namespace binade::amp
