#include "binade/run/training_run.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <utility>

#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/state_hash.h"
#include "binade/core/error.h"
#include "binade/io/checkpoint/store.h"
#include "binade/io/data/loader.h"
#include "binade/io/files/forwarding_file_ops.h"
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

/// Saves after every second step and never by the clock, so that the set of checkpoints does not depend on time.
RunOptions run_options(const ScratchFolder& folder) {
  return {
      .folder = folder.path("run"), .steps = kSteps, .checkpoint_every = 2, .checkpoint_minutes = 0, .log_every = 1000};
}

/// Options of a run that saves at the default times.
RunOptions plain_options(const ScratchFolder& folder, std::int64_t steps) {
  return {.folder = folder.path("run"), .steps = steps, .log_every = 1000};
}

std::int64_t newest_checkpoint(const ScratchFolder& folder) {
  return io::find_newest_checkpoint(folder.path("run/checkpoints")).step;
}

/// A user's whole program. Leaves the loop after `cut` steps without saving, as a killed process does.
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

TEST(TrainingRun, BeginsAgainIfKilledBeforeTheFirstCheckpoint) {
  const ScratchFolder folder;
  RunOptions whole = run_options(folder);
  whole.folder = folder.path("whole");
  const std::string hash = program(whole);
  program(run_options(folder), 1);
  EXPECT_EQ(program(run_options(folder)), hash);
  EXPECT_EQ(folder.read("run/metrics.jsonl"), folder.read("whole/metrics.jsonl"));
}

TEST(TrainingRun, RefusesToBeginIfAllCheckpointsAreDamaged) {
  const ScratchFolder folder;
  program(run_options(folder), 5);
  for (const auto& file : std::filesystem::directory_iterator(folder.path("run/checkpoints")))
    std::filesystem::resize_file(file.path(), 100);
  EXPECT_THROW(program(run_options(folder)), NoCheckpointError);
}

TEST(TrainingRun, RefusesAFolderThatHoldsARunUnlessResumed) {
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

TEST(TrainingRun, SighupEndsTheLoopWithTheStateCommitted) {
  const ScratchFolder folder;
  Training net(trainer_options());
  auto loader = make_loader();
  TrainingRun run(net.trainer, plain_options(folder, kSteps));
  for (const auto& batch : run.batches(loader)) {
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
    if (net.trainer.steps() == 4) std::raise(SIGHUP);
  }
  EXPECT_EQ(run.end(), RunEnd::kPreempted);
  EXPECT_EQ(newest_checkpoint(folder), 4);
}

TEST(TrainingRun, ADamagedWeightRollsBackWithDefaultSaves) {
  const ScratchFolder folder;
  const auto train = [&](const char* name, std::vector<std::string> inject) {
    TrainerOptions options = trainer_options();
    options.inject = std::move(inject);
    Training net(options);
    auto loader = make_loader();
    RunOptions plain = plain_options(folder, 310);
    plain.folder = folder.path(name);
    TrainingRun run(net.trainer, plain);
    for (const auto& batch : run.batches(loader))
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
    return net.trainer.state_hash();
  };
  const std::string whole = train("whole", {});
  EXPECT_EQ(train("harmed", {"nan-weight@step=300,path=down.weight,once=1"}), whole);
  EXPECT_NE(folder.read("harmed/events.jsonl").find("back to step "), std::string::npos);
}

TEST(TrainingRun, ADamagedWeightRollsBackToAnOldCheckpointWithAHigherLoss) {
  const ScratchFolder folder;
  TrainerOptions options = trainer_options();
  options.schedule = optim::Schedule::constant(0.02);
  options.accumulate = 1;
  options.inject = {"nan-weight@step=250,path=down.weight,once=1"};
  Training net(options);
  TrainingRun run(net.trainer, plain_options(folder, 300));
  run.begin();
  const auto closure = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  const double first = run.step(toy::batch(0), closure).loss;
  for (int k = 2; k < 250; ++k) run.step(toy::batch(0), closure);
  EXPECT_LT(run.step(toy::batch(0), closure).loss, first / 20) << "or the first loss is nothing to be surprised at";
  EXPECT_TRUE(run.step(toy::batch(0), closure).rolled_back());
}

TEST(TrainingRun, TheStateIsSavedBeforeAnIncidentEndsTheRun) {
  const ScratchFolder folder;
  TrainerOptions options = trainer_options();
  options.on_nan = OnNan::kStop;
  options.accumulate = 1;
  Training net(options);
  TrainingRun run(net.trainer, plain_options(folder, 400));
  run.begin();
  const auto closure = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  for (std::uint32_t k = 0; k < 300; ++k) run.step(toy::batch(k % 10), closure);
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(1)), closure), NumericError);
  EXPECT_EQ(newest_checkpoint(folder), 300);
}

TEST(TrainingRun, ACorruptedStateIsNotSavedWhenItEndsTheRun) {
  const ScratchFolder folder;
  TrainerOptions options = trainer_options();
  options.on_nan = OnNan::kStop;
  options.accumulate = 1;
  options.inject = {"nan-weight@step=30,path=down.weight"};
  Training net(options);
  TrainingRun run(net.trainer, plain_options(folder, 40));
  run.begin();
  const auto closure = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  for (std::uint32_t k = 0; k < 30; ++k) run.step(toy::batch(k % 10), closure);
  EXPECT_THROW(run.step(toy::batch(1), closure), NumericError);
  EXPECT_LT(newest_checkpoint(folder), 30);
}

TEST(TrainingRun, AFinishedRunIsSavedBeforeTheLastEvaluation) {
  const ScratchFolder folder;
  Training net(trainer_options());
  auto loader = make_loader();
  RunOptions options = plain_options(folder, kSteps);
  options.evaluate = []() -> Evaluation { throw DataError("the held-out data is gone"); };
  TrainingRun run(net.trainer, options);
  const auto loop = [&] {
    for (const auto& batch : run.batches(loader))
      run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  };
  EXPECT_THROW(loop(), DataError);
  EXPECT_EQ(newest_checkpoint(folder), kSteps);
}

TEST(TrainingRun, TheSaveAfterTheLastEvaluationReplacesTheSaveBeforeIt) {
  const ScratchFolder folder;
  Training net(trainer_options());
  auto loader = make_loader();
  RunOptions options = plain_options(folder, kSteps);
  options.score = "val_loss";
  options.evaluate = [] { return Evaluation{.numbers = {{"val_loss", 0.5}}}; };
  TrainingRun run(net.trainer, options);
  for (const auto& batch : run.batches(loader))
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  EXPECT_EQ(
      io::load_checkpoint(folder.path("run/checkpoints/ckpt-000000000009.h5")).state.integer("progress/evaluated"),
      kSteps);
  for (const auto& file : std::filesystem::directory_iterator(folder.path("run/checkpoints")))
    EXPECT_EQ(file.path().string().find("abandoned"), std::string::npos) << file.path();
}

/// A disk that fails to create a checkpoint a given number of times.
class RefusingDisk final : public io::ForwardingFileOps {
 public:
  explicit RefusingDisk(int times) : ForwardingFileOps(io::FileOps::real()), times_(times) {}
  int create_exclusive(int folder, const std::string& name, int& file) override {
    if (name.ends_with(".saving") && times_-- > 0) return EDQUOT;
    return ForwardingFileOps::create_exclusive(folder, name, file);
  }

 private:
  std::atomic<int> times_;
};

TEST(TrainingRun, AFailedLastSaveIsTriedAgain) {
  const ScratchFolder folder;
  RunOptions options = run_options(folder);
  options.checkpoint_every = 0;
  RefusingDisk disk(2);
  options.disk = &disk;
  program(options);
  EXPECT_EQ(newest_checkpoint(folder), kSteps);
  EXPECT_NE(folder.read("run/events.jsonl").find("(EDQUOT); the last commit is intact; it is tried again"),
            std::string::npos)
      << folder.read("run/events.jsonl");
}

TEST(TrainingRun, ALastSaveThatKeepsFailingIsAStorageError) {
  const ScratchFolder folder;
  RunOptions options = run_options(folder);
  options.checkpoint_every = 0;
  options.save_patience = 0.01;
  RefusingDisk disk(1'000'000);
  options.disk = &disk;
  EXPECT_THROW(program(options), StorageError);
}

TEST(TrainingRun, AFailedSaveEndsARunOnlyWithSaveFailureStop) {
  const ScratchFolder folder;
  for (const SaveFailure answer : {SaveFailure::kContinue, SaveFailure::kStop}) {
    const bool stops = answer == SaveFailure::kStop;
    RunOptions options = run_options(folder);
    options.folder = folder.path(stops ? "stops" : "goes on");
    options.save_failure = answer;
    RefusingDisk disk(1);
    options.disk = &disk;
    if (stops)
      EXPECT_THROW(program(options), StorageError);
    else
      program(options);
    EXPECT_EQ(std::filesystem::exists(options.folder + "/checkpoints/ckpt-000000000009.h5"), !stops);
    EXPECT_NE(folder.read((stops ? "stops" : "goes on") + std::string("/events.jsonl"))
                  .find("checkpoint of step 2 was not committed"),
              std::string::npos);
  }
}

/// Limits the size of written files during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uintmax_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(TrainingRun, LogsThatCannotBeWrittenDoNotEndTheRun) {
  const ScratchFolder folder;
  RunOptions options = plain_options(folder, 3);
  options.folder = folder.path("probe");
  program(options);
  const std::uintmax_t checkpoint = std::filesystem::file_size(folder.path("probe/checkpoints/ckpt-000000000003.h5"));
  options = plain_options(
      folder, static_cast<std::int64_t>(
                  checkpoint / 40));  // so that the logs, which have more than 40 bytes per step, exceed the limit
  options.evaluate = []() -> Evaluation { return {.numbers = {{"val_loss", 1.0}}, .sample = "Once upon"}; };
  options.save_patience = 0;
  folder.write("run/samples", "in the way of a folder");
  testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(2 * checkpoint);  // twice the size, because the histories in checkpoints grow
    program(options);
  }
  const std::string words = testing::internal::GetCapturedStderr();
  EXPECT_EQ(newest_checkpoint(folder), options.steps);
  for (const char* log : {"metrics.jsonl", "timing.jsonl", "samples/", "TensorBoard's events"}) {
    const std::string once = fmt::format("the run goes on, and {} misses lines", log);
    const std::size_t first = words.find(once);
    EXPECT_NE(first, std::string::npos) << log << "\n" << words;
    EXPECT_EQ(words.find(once, first + 1), std::string::npos) << log << " is reported once\n" << words;
    EXPECT_NE(folder.read("run/events.jsonl").find(fmt::format("{}: ", log)), std::string::npos) << log;
  }
}

TEST(TrainingRun, ASecondIncidentOfAStepHasItsOwnFolder) {
  const ScratchFolder folder;
  TrainerOptions trainer = trainer_options();
  trainer.accumulate = 1;
  Training net(trainer);
  auto loader = make_loader();
  RunOptions options = run_options(folder);
  options.steps = 20;
  TrainingRun run(net.trainer, options);
  FaultInjection drill({"nan-weight@step=12,path=up.weight"}, net.net);
  optim::Optimizer* const optimizers[] = {&net.optimizer};
  bool harmed = false, rolled_back = false, poisoned = false;
  for (const auto& batch : run.batches(loader)) {
    const bool poison = rolled_back && net.trainer.steps() == 12 && !std::exchange(poisoned, true);
    const StepResult result = run.step(batch, [&](const toy::Batch& b) {
      return toy::loss(net.net, poison ? toy::with_nan(b) : b);
    });
    rolled_back = rolled_back || result.rolled_back();
    if (net.trainer.steps() == 12 && !std::exchange(harmed, true)) drill.after_commit(12, optimizers);
  }
  EXPECT_EQ(net.trainer.steps(), 20);
  EXPECT_TRUE(poisoned);
  const auto action = [&](const char* name) {
    const std::string report = folder.read(fmt::format("run/incidents/{}/report.json", name));
    const std::size_t at = report.find(R"("action":")");
    return at == std::string::npos ? "no report" : report.substr(at + 10, report.find('"', at + 10) - at - 10);
  };
  EXPECT_EQ(action("000000000013"), "rollback");
  EXPECT_EQ(action("000000000013-2"), "skip-batch");
  EXPECT_NE(folder.read("run/incidents/000000000013/report.md").find("back to step "), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path("run/incidents/000000000013-3")));
}

TEST(TrainingRun, ASignalAfterASkippedBatchResumesToTheSameBits) {
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

TEST(TrainingRun, AnInterruptedEvaluationIsRepeatedByTheResumedRun) {
  const ScratchFolder folder;
  /// Evaluates every three steps; a signal interrupts the evaluation after step `cut`.
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

TEST(TrainingRun, TheCheckpointWithTheBestScoreIsKept) {
  const ScratchFolder folder;
  // Each run resumes the one before with two more steps, so that each of these steps has a checkpoint.
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
  const io::ManifestReading kept = io::manifest_from(folder.read("run/checkpoints/MANIFEST"));
  const auto fourth = std::ranges::find(kept.manifest.entries, 4, &io::ManifestEntry::step);
  ASSERT_NE(fourth, kept.manifest.entries.end());
  EXPECT_EQ(fourth->score, (io::Score{.value = 0.9, .higher_is_better = true}));
  EXPECT_NE(folder.read("run/metrics.jsonl").find("{\"step\":4,\"val_dice\":0.9}"), std::string::npos);
}

TEST(TrainingRun, AnAbortedStepIsLoggedAndThrown) {
  const ScratchFolder folder;
  TrainerOptions options = trainer_options();
  options.on_nan = OnNan::kStop;
  Training net(options);
  TrainingRun run(net.trainer, run_options(folder));
  run.begin();
  const auto closure = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  run.step(toy::batch(0), closure);
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(1)), closure), NumericError);
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

TEST(TrainingRun, HeadroomIsLoggedForSampledStepsAndIncidents) {
  const ScratchFolder folder;
  TrainerOptions stopping = trainer_options();
  stopping.on_nan = OnNan::kStop;
  Training net(stopping);
  RunOptions options = run_options(folder);
  options.steps = 800;  // of 800 steps, every fourth is sampled
  TrainingRun run(net.trainer, options);
  run.begin();
  const auto closure = [&](const toy::Batch& b) { return toy::loss(net.net, b); };
  for (std::uint32_t k = 0; k < 6; ++k) run.step(toy::batch(k), closure);
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(7)), closure), NumericError);
  const std::vector<std::string> lines = lines_of(folder.read("run/headroom.jsonl"));
  ASSERT_EQ(lines.size(), 3u) << folder.read("run/headroom.jsonl");
  EXPECT_TRUE(lines[0].starts_with("{\"step\":1,\"headroom\":{\"\":[")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("{\"step\":4,\"headroom\":")) << lines[1];
  EXPECT_EQ(lines[2], "{\"step\":7,\"incident\":true,\"headroom\":{\"\":[\"-inf\",\"inf\"]}}");
}

TEST(TrainingRun, TimingRecordsTheStallOfCheckpoints) {
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

TEST(TrainingRun, SamplesOfAnEvaluationAreWritten) {
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

/// The final state of a run whose evaluations return `score`, and the incident report of step 6.
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

TEST(TrainingRun, ANonFiniteEvaluationIsAWarningAndDoesNotChangeTraining) {
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
