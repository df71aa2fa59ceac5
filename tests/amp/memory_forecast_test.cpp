#include "binade/amp/step/memory_forecast.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "binade/core/backend.h"
#include "binade/run/training_run.h"
#include "tests/amp/lab.h"
#include "tests/io/scratch_folder.h"

namespace binade::amp {
namespace {

/// The memory trace of a step. Forward allocates activations, whose size is proportional to `rows`, and backward frees
/// them. Then backward allocates a gradient of `fixed` bytes.
MemoryTrace step_of(std::size_t rows, std::size_t fixed) {
  return {{{.bytes = 100 * rows, .allocated = 0, .released = 3},
           {.bytes = 50 * rows, .allocated = 1, .released = 2},
           {.bytes = fixed, .allocated = 4, .released = 5}}};
}

TEST(MemoryForecast, ExtrapolatesEachBlockSoThatThePeakMayMove) {
  const TracedRows few{.rows = 2, .trace = step_of(2, 1000)}, more{.rows = 3, .trace = step_of(3, 1000)};
  EXPECT_EQ(peak_with(3, few, more), 1000);
  EXPECT_EQ(peak_with(6, few, more), 1000);
  EXPECT_EQ(peak_with(100, few, more), 15000) << "the peaks of few rows say nothing of it";
}

TEST(MemoryForecast, ExtrapolatesThePeaksIfTheBlocksDiffer) {
  MemoryTrace one_more = step_of(3, 0);
  one_more.blocks.push_back({.bytes = 1, .allocated = 6});
  EXPECT_EQ(peak_with(10, {.rows = 2, .trace = step_of(2, 0)}, {.rows = 3, .trace = one_more}), 1500);
}

TEST(MemoryForecast, ErrorSaysHowManyRowsFit) {
  const MemoryForecast forecast{.rows = 8, .bytes = 21.3e9, .bytes_per_row = 2.5e9};
  EXPECT_EQ(to_string(forecast, 139e9), "this step needs about 21.3 GB of 139 GB");
  EXPECT_NO_THROW(check_fits(forecast, 21.4e9, Device::cpu()));
  EXPECT_EQ(forecast.rows_that_fit(16e9), 5);
  EXPECT_EQ(forecast.rows_that_fit(1e9), 0);
  try {
    check_fits(forecast, 16e9, Device::cpu());
    FAIL();
  } catch (const OutOfMemoryError& error) {
    for (const char* part : {"21.3 GB", "2.5 GB", "cpu has 16 GB", "batches of 5 samples", "options.accumulate = 2",
                             "recompute(block, x)"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  try {
    check_fits(forecast, 1e9, Device::cpu());
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("not one row fits"), std::string::npos) << error.what();
  }
  EXPECT_GT(memory_of(Device::cpu()), 1e8);
}

TEST(MemoryForecast, DoesNotChangeTheRun) {
  toy::Lab lab({.precision = Policy::fp16()});
  const auto closure = [&](const toy::LabBatch& b) { return lab.loss(b); };
  lab.step();
  const std::string before = lab.trainer.state_hash();
  const toy::LabBatch batch = lab.loader.next();
  const std::optional<MemoryForecast> forecast = lab.trainer.forecast_memory(batch, closure);
  ASSERT_TRUE(forecast);
  EXPECT_EQ(forecast->rows, 8);
  EXPECT_GT(forecast->bytes_per_row, 0);
  EXPECT_EQ(lab.trainer.state_hash(), before);
  EXPECT_EQ(lab.trainer.finished().size(), 1u);
}

/// The first step allocates the 16-bit copies; later steps keep them.
TEST(MemoryForecast, EqualsTheMemoryOfTheFirstStep) {
  Backend& backend = backend_of(Device::cpu());
  toy::Lab lab({.precision = Policy::fp16()});
  const toy::LabBatch batch = lab.loader.next();
  const auto closure = [&](const toy::LabBatch& b) { return lab.loss(b); };
  const std::optional<MemoryForecast> forecast = lab.trainer.forecast_memory(batch, closure);
  ASSERT_TRUE(forecast);
  backend.reset_peak();
  lab.trainer.step(batch, closure);
  EXPECT_EQ(static_cast<double>(backend.bytes_peak()), forecast->bytes);
}

TEST(MemoryForecast, IsEmptyIfTheStepFails) {
  toy::Lab lab({});
  toy::LabBatch batch = lab.loader.next();
  batch.x.fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(lab.trainer.forecast_memory(batch, [&](const toy::LabBatch& b) { return lab.loss(b); }));
  EXPECT_FALSE(
      lab.trainer.forecast_memory(batch, [&](const toy::LabBatch&) -> Variable { throw ShapeError("of the user's"); }));
}

TEST(MemoryForecast, DoesNotTriggerInjectedFaults) {
  toy::Lab lab({.inject = {"nan-input@step=1,sample=3"}});
  EXPECT_FALSE(lab.trainer.forecast_memory(lab.loader.next(), [&](const toy::LabBatch& b) { return lab.loss(b); }));
}

TEST(MemoryForecast, ThrowsOutOfMemoryBeforeAStepThatDoesNotFit) {
  const io::ScratchFolder folder;
  toy::Lab lab({});
  int runs = 0;
  const auto closure = [&](const toy::LabBatch& b) {
    runs += b.x.dim(0) == 8;
    return lab.loss(b);
  };
  {
    TrainingRun run(lab.trainer, {.folder = folder.path("small"), .steps = 2, .memory_limit = 1000});
    EXPECT_THROW(run.step(lab.loader.next(), closure), OutOfMemoryError);
    EXPECT_EQ(lab.trainer.steps(), 0);
    EXPECT_EQ(runs, 0) << "not even tried";
  }
  TrainingRun run(lab.trainer, {.folder = folder.path("told"), .steps = 2});
  testing::internal::CaptureStderr();
  run.step(lab.loader.next(), closure);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("memory: this step needs about"), std::string::npos);
  run.step(lab.loader.next(), closure);
  const std::string events = folder.read("told/events.jsonl");
  EXPECT_EQ(events.find("\"kind\":\"memory\""), events.rfind("\"kind\":\"memory\"")) << "once";
  EXPECT_NE(events.find("\"kind\":\"memory\""), std::string::npos);
}

TEST(MemoryForecast, CanBeDisabled) {
  const io::ScratchFolder folder;
  toy::Lab lab({});
  TrainingRun run(lab.trainer,
                  {.folder = folder.path("run"), .steps = 2, .forecast_memory = false, .memory_limit = 1000});
  run.step(lab.loader.next(), [&](const toy::LabBatch& b) { return lab.loss(b); });
  EXPECT_EQ(lab.trainer.steps(), 1);
  EXPECT_EQ(folder.read("run/events.jsonl").find("\"memory\""), std::string::npos);
}

}  // namespace
}  // namespace binade::amp
