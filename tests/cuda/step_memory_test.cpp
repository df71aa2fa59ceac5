#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/losses.h"
#include "binade/core/backend.h"
#include "binade/core/gpus.h"
#include "binade/io/data/text_data.h"
#include "binade/optim/adam.h"
#include "examples/transformer/gpt.h"

// A run reserves as much device memory as its largest step needs, not the sum over eager steps and captured steps of
// several sizes.
namespace binade::amp {
namespace {

constexpr std::int64_t kVocabulary = 61, kContext = 32;

io::TextBatch batch(std::uint32_t k, std::int64_t rows) {
  const auto tokens = [&](std::uint32_t which) {
    const RandomStream numbers{5, RngPurpose::kData, 0, 0, which};
    std::vector<std::int32_t> values(static_cast<std::size_t>(rows * kContext));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int32_t>(numbers.below(i, static_cast<std::uint64_t>(kVocabulary)));
    return Tensor::from(values, {rows, kContext});
  };
  io::TextBatch b{.tokens = tokens(2 * k), .targets = tokens(2 * k + 1), .origin = {}};
  for (std::int64_t row = 0; row < rows; ++row) b.origin.samples.push_back(row);
  return b;
}

struct Held {
  std::size_t bytes = 0;  // largest reserved amount
  std::vector<std::string> notes;
  std::string hash;
};

/// Telemetry probes every fourth step. Of steps with and without probes, the first two run eagerly, the second one
/// after its capture, to validate the graph.
Held train(TrainerOptions options, const std::vector<std::int64_t>& rows,
           const std::function<void(std::uint32_t k, const Variable& loss)>& look = {}) {
  constexpr std::uint32_t kSteps = 16;
  Backend& backend = backend_of(Device::cuda());
  backend.trim();
  const std::size_t before = backend.bytes_reserved();
  Runtime runtime({.device = Device::cuda(), .seed = 3});
  examples::Gpt model(
      {.layers = 2, .heads = 4, .dim = 32, .context = kContext, .vocabulary = kVocabulary, .table = 64});
  optim::AdamW optimizer(model, {.lr = 1e-3});
  Trainer trainer(runtime, model, optimizer, options);
  Held held;
  for (std::uint32_t k = 0; k < kSteps; ++k) {
    const io::TextBatch b = batch(k, rows[k % rows.size()]);
    const StepResult result = trainer.step(b, [&](const io::TextBatch& there) {
      const Variable loss = cross_entropy(model(there.tokens), there.targets);
      if (look) look(k, loss);
      return loss;
    });
    EXPECT_TRUE(result.committed);
    held.notes.insert(held.notes.end(), result.notes.begin(), result.notes.end());
    held.bytes = std::max(held.bytes, backend.bytes_reserved() - before);
  }
  held.hash = trainer.state_hash();
  return held;
}

class StepMemory : public testing::TestWithParam<Policy> {
 protected:
  void SetUp() override {
    if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }
  TrainerOptions options(bool record, bool telemetry) const {
    return {.precision = GetParam(), .telemetry = telemetry, .record = record};
  }
};

TEST_P(StepMemory, OfAlternatingStepsIsThatOfTheLargerOnes) {
  const Held op_by_op = train(options(false, true), {4}), recorded = train(options(true, false), {4}),
             alternating = train(options(true, true), {4});
  const double larger = static_cast<double>(std::max(op_by_op.bytes, recorded.bytes));
  std::printf("op by op %zu, recorded %zu, alternating %zu: %.3f of the larger\n", op_by_op.bytes, recorded.bytes,
              alternating.bytes, static_cast<double>(alternating.bytes) / larger);
  EXPECT_LE(static_cast<double>(alternating.bytes), 1.15 * larger);
  EXPECT_EQ(alternating.hash, op_by_op.hash);
  EXPECT_TRUE(alternating.notes.empty());
}

TEST_P(StepMemory, OfSeveralSizesIsThatOfTheLargest) {
  const Held one = train(options(true, true), {8}), several = train(options(true, true), {2, 8, 4}),
             op_by_op = train(options(false, true), {2, 8, 4});
  EXPECT_TRUE(several.notes.empty());
  std::printf("one size %zu, three %zu: %.3f of it; op by op %zu\n", one.bytes, several.bytes,
              static_cast<double>(several.bytes) / static_cast<double>(one.bytes), op_by_op.bytes);
  EXPECT_LE(static_cast<double>(several.bytes), 1.15 * static_cast<double>(one.bytes));
  EXPECT_EQ(several.hash, op_by_op.hash);
}

TEST_P(StepMemory, ThatOutlivesAStepDoesNotDisableCapturing) {
  std::vector<std::uint32_t> made;  // numbers of the steps that called the closure
  Variable kept;
  const Held got = train(options(true, true), {4}, [&](std::uint32_t k, const Variable& loss) {
    made.push_back(k);
    if (k == 3) kept = loss;  // keeps the loss of an eager step
  });
  kept = Variable();
  EXPECT_EQ(got.hash, train(options(false, true), {4}).hash);
  ASSERT_EQ(got.notes.size(), 1u);
  EXPECT_NE(got.notes[0].find("captured again"), std::string::npos) << got.notes[0];
  for (const std::uint32_t k : {4u, 5u}) EXPECT_EQ(std::ranges::count(made, k), 1) << k;
  for (const std::uint32_t k : {9u, 10u, 13u, 14u}) EXPECT_EQ(std::ranges::count(made, k), 0) << k;
}

INSTANTIATE_TEST_SUITE_P(Policies, StepMemory, testing::Values(Policy::fp32(), Policy::bf16()),
                         [](const auto& of) { return of.index == 0 ? "fp32" : "bf16"; });

}  // namespace
}  // namespace binade::amp
