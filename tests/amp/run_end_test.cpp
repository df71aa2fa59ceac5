#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "binade/io/checkpoint/find.h"
#include "binade/io/checkpoint/manifest.h"
#include "binade/io/data/loader.h"
#include "binade/run/training_run.h"
#include "tests/amp/toy.h"
#include "tests/io/scratch_folder.h"

/// How a run ends before its last step, and which checkpoints evaluations cause.
namespace binade::amp {
namespace {

using io::ScratchFolder;
using toy::Training;

constexpr std::int64_t kSteps = 9;

io::Loader<toy::Batch> make_loader() {
  return io::Loader<toy::Batch>({.batch = 2, .seed = 3, .samples = 10, .content = "toy"},
                                [](const io::BatchOrigin& origin) {
                                  return toy::batch(static_cast<std::uint32_t>(origin.samples[0]));
                                });
}

TrainerOptions trainer_options() { return {.precision = Policy::fp16(), .accumulate = 2}; }

RunOptions plain_options(const ScratchFolder& folder) {
  return {.folder = folder.path("run"), .steps = kSteps, .log_every = 1000};
}

std::int64_t newest_checkpoint(const ScratchFolder& folder) {
  return io::find_newest_checkpoint(folder.path("run/checkpoints")).step;
}

/// Trains to the last step, from a checkpoint if there is one. Returns the hash of the state.
std::string program(const RunOptions& options) {
  Training net(trainer_options());
  auto loader = make_loader();
  TrainingRun run(net.trainer, options);
  run.resume_if_possible();
  for (const auto& batch : run.batches(loader))
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  return net.trainer.state_hash();
}

/// Runs evaluate at every step; its score is the best at step 3. No checkpoint is due before the end.
RunOptions best_at_step_three(const ScratchFolder& folder, Training& net) {
  RunOptions options = plain_options(folder);
  options.eval_every = 1;
  options.score = "val_loss";
  options.evaluate = [&net]() -> Evaluation {
    return {.numbers = {{"val_loss", 1 + std::abs(static_cast<double>(net.trainer.steps()) - 3)}}};
  };
  return options;
}

TEST(RunEnd, AnEvaluationWithTheBestScoreIsSaved) {
  const ScratchFolder folder;
  Training net(trainer_options());
  auto loader = make_loader();
  TrainingRun run(net.trainer, best_at_step_three(folder, net));
  for (const auto& batch : run.batches(loader))
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  const io::FoundCheckpoint best = io::find_checkpoint(folder.path("run/checkpoints"), {});
  EXPECT_EQ(best.step, 3);
  std::vector<std::int64_t> steps;  // each of the first three is the best so far; the last step is always saved
  for (const io::ManifestEntry& entry : io::manifest_from(folder.read("run/checkpoints/MANIFEST")).manifest.entries)
    steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, kSteps}));
}

TEST(RunEnd, AProgramStopsARunEarly) {
  const ScratchFolder folder;
  {
    Training net(trainer_options());
    auto loader = make_loader();
    TrainingRun run(net.trainer, best_at_step_three(folder, net));
    for (const auto& batch : run.batches(loader)) {
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
      if (net.trainer.steps() == 5) run.stop("no better score in 2 evaluations");
    }
    EXPECT_EQ(run.end(), RunEnd::kStopped);
    EXPECT_EQ(net.trainer.steps(), 5);
  }
  EXPECT_EQ(newest_checkpoint(folder), 5);
  EXPECT_NE(folder.read("run/events.jsonl")
                .find("finished after step 5, stopped by the program: no better score in 2 evaluations"),
            std::string::npos);
  // A resumed run goes on to the bits of a run that was not stopped.
  const ScratchFolder other;
  EXPECT_EQ(program(plain_options(folder)), program(plain_options(other)));
}

TEST(RunEnd, ALoopThatIsLeftIsNoErrorAndNotDone) {
  const ScratchFolder folder;
  {
    Training net(trainer_options());
    auto loader = make_loader();
    TrainingRun run(net.trainer, plain_options(folder));
    for (const auto& batch : run.batches(loader)) {
      EXPECT_EQ(run.end(), RunEnd::kLeft);
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
      if (net.trainer.steps() == 4) break;
    }
    EXPECT_EQ(run.end(), RunEnd::kLeft);
  }
  EXPECT_NE(folder.read("run/events.jsonl").find("left by the program, before its end, after step 4"),
            std::string::npos);
}

}  // namespace
}  // namespace binade::amp
