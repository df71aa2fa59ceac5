#include "amp/training_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "amp/state_hash.h"
#include "core/error.h"
#include "io/checkpoint_store.h"
#include "io/loader.h"
#include "tests/amp/toy.h"
#include "tests/io/scratch_folder.h"

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

TrainerOptions trainer_options() {
  return {.precision = Policy::fp16(), .schedule = optim::Schedule::cosine(0.02, kSteps, 0.001, 3), .accumulate = 2};
}

RunOptions run_options(const ScratchFolder& folder) {
  return {.folder = folder.path("run"), .steps = kSteps, .checkpoint_every = 2, .log_every = 1000};
}

/// A user's whole program. Leaves the loop without a word after `cut` steps, as a killed process does.
std::string program(const RunOptions& options, std::int64_t cut = -1) {
  Training net(trainer_options());
  auto loader = make_loader();
  TrainingRun run(net.trainer, options);
  run.resume_if_possible();
  for (const auto& batch : run.batches(loader)) {
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
    if (net.trainer.steps() == cut) break;
  }
  return net.trainer.state_hash();
}

TEST(TrainingRun, AUsersLoopResumesToTheSameBits) {
  const ScratchFolder folder;
  RunOptions whole = run_options(folder), parts = run_options(folder);
  whole.folder = folder.path("whole");
  const std::string hash = program(whole);
  program(parts, 3);
  program(parts, 8);
  EXPECT_EQ(program(parts), hash);
  EXPECT_EQ(folder.read("run/metrics.jsonl"), folder.read("whole/metrics.jsonl"));
  EXPECT_EQ(folder.read("run/checkpoints/ckpt-000000000009.h5"), folder.read("whole/checkpoints/ckpt-000000000009.h5"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("run/plans.txt"))) << "of a GPU's libraries alone";
  EXPECT_EQ(program(parts), hash) << "a finished run is done at once";
}

TEST(TrainingRun, KilledBeforeItsFirstCheckpointItBeginsAgain) {
  const ScratchFolder folder;
  RunOptions whole = run_options(folder);
  whole.folder = folder.path("whole");
  const std::string hash = program(whole);
  program(run_options(folder), 1);
  EXPECT_EQ(program(run_options(folder)), hash);
  EXPECT_EQ(folder.read("run/metrics.jsonl"), folder.read("whole/metrics.jsonl"));
}

TEST(TrainingRun, NeverBeginsAgainWhereCheckpointsWereLost) {
  const ScratchFolder folder;
  program(run_options(folder), 5);
  for (const auto& file : std::filesystem::directory_iterator(folder.path("run/checkpoints")))
    std::filesystem::resize_file(file.path(), 100);
  EXPECT_THROW(program(run_options(folder)), NoCheckpointError);
}

TEST(TrainingRun, WithoutResumingAFolderThatHoldsARunIsNotTouched) {
  const ScratchFolder folder;
  program(run_options(folder), 5);
  const std::string before = folder.read("run/metrics.jsonl");
  Training net(trainer_options());
  auto loader = make_loader();
  TrainingRun run(net.trainer, run_options(folder));
  const auto loop = [&] {
    for (const auto& batch : run.batches(loader))
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  };
  EXPECT_THROW(loop(), ArgumentError);
  EXPECT_EQ(folder.read("run/metrics.jsonl"), before);
}

TEST(TrainingRun, ASignalEndsTheLoopWithTheStateCommitted) {
  const ScratchFolder folder;
  Training net(trainer_options());
  auto loader = make_loader();
  RunOptions options = run_options(folder);
  options.checkpoint_every = 0;
  {
    TrainingRun run(net.trainer, options);
    for (const auto& batch : run.batches(loader)) {
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
      if (net.trainer.steps() == 4) std::raise(SIGTERM);
    }
    EXPECT_EQ(run.end(), RunEnd::kPreempted);
    EXPECT_EQ(net.trainer.steps(), 4);
  }
  EXPECT_EQ(io::find_newest_checkpoint(options.folder + "/checkpoints").step, 4);
}

TEST(TrainingRun, ASignalAfterASkippedBatchWaitsForTheStep) {
  const ScratchFolder folder;
  const auto train = [&](const std::string& name, bool stop) {
    TrainerOptions trainer = trainer_options();
    trainer.on_nan = OnNan::kSkip;
    trainer.accumulate = 1;
    Training net(trainer);
    io::Loader<toy::Batch> loader({.batch = 2, .seed = 3, .samples = 10, .content = "toy"},
                                  [](const io::BatchOrigin& origin) {
                                    const toy::Batch batch = toy::batch(static_cast<std::uint32_t>(origin.samples[0]));
                                    return origin.begin == 6 ? toy::with_nan(batch) : batch;
                                  });
    RunOptions options = run_options(folder);
    options.folder = folder.path(name);
    TrainingRun run(net.trainer, options);
    run.resume_if_possible();
    for (const auto& batch : run.batches(loader)) {
      const StepResult result = run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
      if (stop && !result.committed) std::raise(SIGTERM);
    }
    return net.trainer.steps();
  };
  EXPECT_EQ(train("whole", false), kSteps);
  EXPECT_EQ(train("parts", true), 4) << "the fourth step's first batch was skipped";
  EXPECT_EQ(train("parts", false), kSteps);
  EXPECT_EQ(folder.read("parts/metrics.jsonl"), folder.read("whole/metrics.jsonl"));
  const char* last = "/checkpoints/ckpt-000000000009.h5";
  EXPECT_TRUE(folder.read(std::string("parts") + last) == folder.read(std::string("whole") + last));
}

TEST(TrainingRun, AnEvaluationThatASignalCutsOffIsMadeUp) {
  const ScratchFolder folder;
  /// Evaluates every three steps; a signal comes while step `cut` is evaluated.
  const auto train = [&](const std::string& name, std::int64_t cut) {
    Training net(trainer_options());
    auto loader = make_loader();
    RunOptions options = run_options(folder);
    options.folder = folder.path(name);
    options.eval_every = 3;
    options.evaluate = [&]() -> Evaluation {
      if (net.trainer.steps() == cut) {
        std::raise(SIGTERM);
        throw EvaluationStopped();
      }
      return {.numbers = {{"val_loss", static_cast<double>(net.trainer.steps())}}};
    };
    TrainingRun run(net.trainer, options);
    run.resume_if_possible();
    for (const auto& batch : run.batches(loader))
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
    return run.end();
  };
  EXPECT_EQ(train("whole", -1), RunEnd::kDone);
  for (const std::int64_t cut : {std::int64_t{6}, kSteps}) {
    const std::string name = fmt::format("cut{}", cut);
    EXPECT_EQ(train(name, cut), RunEnd::kPreempted);
    EXPECT_EQ(train(name, -1), RunEnd::kDone);
    EXPECT_EQ(folder.read(name + "/metrics.jsonl"), folder.read("whole/metrics.jsonl"));
    EXPECT_EQ(folder.read(name + "/checkpoints/ckpt-000000000009.h5"),
              folder.read("whole/checkpoints/ckpt-000000000009.h5"));
  }
}

TEST(TrainingRun, TheBestCheckpointIsTheOneOfTheBestScore) {
  const ScratchFolder folder;
  // Resumed with more steps each time: every run commits at its end, however fast the disk is.
  for (std::int64_t steps = 2; steps <= 12; steps += 2) {
    Training net(trainer_options());
    auto loader = make_loader();
    RunOptions options = run_options(folder);
    options.steps = steps;
    options.keep = 2;
    options.checkpoint_every = 0;
    options.score = "val_dice";
    options.higher_is_better = true;
    options.evaluate = [&]() -> Evaluation { return {.numbers = {{"val_dice", steps == 4 ? 0.9 : 0.1}}}; };
    TrainingRun run(net.trainer, options);
    run.resume_if_possible();
    for (const auto& batch : run.batches(loader))
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path("run/checkpoints/ckpt-000000000004.h5")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("run/checkpoints/ckpt-000000000006.h5")));
  EXPECT_NE(folder.read("run/metrics.jsonl").find("{\"step\":4,\"val_dice\":0.9}"), std::string::npos);
}

TEST(TrainingRun, AStepThatCannotBeCommittedIsWrittenDownAndThrown) {
  const ScratchFolder folder;
  TrainerOptions options = trainer_options();
  options.on_nan = OnNan::kStop;
  Training net(options);
  TrainingRun run(net.trainer, run_options(folder));
  run.begin();
  const auto maths = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  run.step(toy::batch(0), maths);
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(1)), maths), NumericError);
  EXPECT_NE(folder.read("run/metrics.jsonl").find("\"step\":2,\"attempt\":1,\"committed\":false,\"loss\":\"nan\""),
            std::string::npos)
      << folder.read("run/metrics.jsonl");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(TrainingRun, HeadroomIsWrittenOfSampledStepsAndOfThoseWithAnIncident) {
  const ScratchFolder folder;
  TrainerOptions stopping = trainer_options();
  stopping.on_nan = OnNan::kStop;
  Training net(stopping);
  RunOptions options = run_options(folder);
  options.steps = 800;  // every fourth step is sampled
  TrainingRun run(net.trainer, options);
  run.begin();
  const auto maths = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  for (std::uint32_t k = 0; k < 6; ++k) run.step(toy::batch(k), maths);
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(7)), maths), NumericError);
  const std::vector<std::string> lines = lines_of(folder.read("run/headroom.jsonl"));
  ASSERT_EQ(lines.size(), 3u) << folder.read("run/headroom.jsonl");
  EXPECT_TRUE(lines[0].starts_with("{\"step\":1,\"headroom\":{\"\":[")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("{\"step\":4,\"headroom\":")) << lines[1];
  EXPECT_EQ(lines[2], "{\"step\":7,\"incident\":true,\"headroom\":{\"\":[\"-inf\",\"inf\"]}}");
}

TEST(TrainingRun, TimingTellsWhatCheckpointsTookFromTheSteps) {
  const ScratchFolder folder;
  RunOptions options = run_options(folder);
  options.checkpoint_every = 8;
  const std::string hash = program(options);
  const std::vector<std::string> lines = lines_of(folder.read("run/timing.jsonl"));
  ASSERT_EQ(lines.size(), 9u);
  for (std::size_t step = 1; step <= 9; ++step)
    EXPECT_EQ(lines[step - 1].find("\"stall_ms\":") != std::string::npos, step == 9) << lines[step - 1];
  EXPECT_EQ(io::load_checkpoint(folder.path("run/checkpoints/ckpt-000000000009.h5")).info.state_hash, hash);
}

TEST(TrainingRun, WhatAnEvaluationShowsIsKept) {
  const ScratchFolder folder;
  Training net(trainer_options());
  auto loader = make_loader();
  RunOptions options = run_options(folder);
  options.eval_every = 5;
  const io::Image picture{.width = 2, .height = 1, .values = {7, 9}};
  options.evaluate = [&]() -> Evaluation { return {.picture = picture, .sample = "Once upon"}; };
  TrainingRun run(net.trainer, options);
  for (const auto& batch : run.batches(loader))
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  for (const char* step : {"000000000005", "000000000009"}) {
    EXPECT_EQ(folder.read(fmt::format("run/samples/{}.txt", step)), "Once upon");
    EXPECT_EQ(io::read_png(folder.path(fmt::format("run/samples/{}.png", step))).values, picture.values);
  }
}

/// Steps of the toy with evaluations that come to `score`; what is left, and the report of step 6.
struct Judged {
  StateDict state;
  std::string report;
};
Judged judged(const ScratchFolder& folder, const std::string& name, bool evaluates,
              const std::function<double(Training&, std::int64_t)>& score) {
  Training net(trainer_options());
  auto loader = make_loader();
  RunOptions options = run_options(folder);
  options.folder = folder.path(name);
  if (evaluates) {
    options.eval_every = 3;
    options.score = "val_loss";
    options.evaluate = [&] { return Evaluation{.numbers = {{"val_loss", score(net, net.trainer.steps())}}}; };
  }
  TrainingRun run(net.trainer, options);
  for (const auto& batch : run.batches(loader))
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  const std::string report = name + "/incidents/000000000006/report.json";
  return {net.trainer.state(), std::filesystem::exists(folder.path(report)) ? folder.read(report) : ""};
}

TEST(TrainingRun, AnEvaluationThatIsNotFiniteIsAWarningAndTrainingIsUnharmed) {
  const ScratchFolder folder;
  const Judged plain = judged(folder, "plain", false, {});
  const Judged bad = judged(folder, "bad", true, [](Training& net, std::int64_t step) {
    return toy::loss(net.net, step == 6 ? toy::with_nan(toy::batch(1)) : toy::batch(1)).value().item();
  });
  EXPECT_EQ(state_hash(bad.state), state_hash(plain.state));
  EXPECT_NE(bad.report.find(R"("kind":"warning")"), std::string::npos) << bad.report;
  EXPECT_NE(bad.report.find(R"("direction":"input")"), std::string::npos) << bad.report;
  EXPECT_NE(bad.report.find(R"("class":"bad-input")"), std::string::npos) << bad.report;
  EXPECT_NE(bad.report.find(R"("what":"val_loss of the evaluation is nan")"), std::string::npos) << bad.report;
}

TEST(TrainingRun, ANaNIsNeverTheBestScore) {
  const ScratchFolder folder;
  judged(folder, "run", true,
         [](Training&, std::int64_t step) { return step == 6 ? std::nan("") : 10 - static_cast<double>(step); });
  const std::string manifest = folder.read("run/checkpoints/MANIFEST");
  EXPECT_EQ(manifest.find("nan"), std::string::npos) << manifest;
}

}  // namespace
}  // namespace binade::amp
