// Some objects serve one thread at a time. They refuse a second thread with an error that names both calls.

#include "binade/core/exclusive_use.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "binade/amp/step/step_transaction.h"
#include "binade/run/training_run.h"
#include "tests/error_text.h"
#include "tests/io/scratch_folder.h"
#include "tests/threads/crowd.h"
#include "tests/threads/small_training.h"

namespace binade {
namespace {

using test::error_of;
using test::SmallTraining;

Variable loss_of(SmallTraining& training, const Tensor& x) { return mean(square(training.net(x) + -0.5)); }

/// Runs `call` on a new thread, waits for its end, and returns the error that it throws.
std::string error_elsewhere(const std::function<void()>& call) {
  std::string error;
  std::thread other([&] { error = error_of<ArgumentError>(call); });
  other.join();
  return error;
}

std::string message(const std::string& object, const std::string& second, const std::string& first) {
  return object + ": " + second + " was called while another thread is inside of " + first + " of the same " + object +
         ", which serves one thread at a time; let the threads take turns (a mutex around each call), or give each "
         "thread its own " +
         object;
}

TEST(ExclusiveUse, NamesBothCalls) {
  ExclusiveUse use("trainer");
  const ExclusiveUse::Call call(use, "step");
  EXPECT_EQ(error_elsewhere([&] { const ExclusiveUse::Call second(use, "state"); }),
            message("trainer", "state", "step"));
}

TEST(ExclusiveUse, AllowsNestedCallsAndTurns) {
  ExclusiveUse use("trainer");
  {
    const ExclusiveUse::Call outer(use, "evaluate");
    { const ExclusiveUse::Call inner(use, "steps"); }
    EXPECT_EQ(error_elsewhere([&] { const ExclusiveUse::Call second(use, "step"); }),
              message("trainer", "step", "evaluate"));
  }
  EXPECT_EQ(error_elsewhere([&] { const ExclusiveUse::Call second(use, "step"); }), "no error");
  const ExclusiveUse::Call again(use, "step");
}

/// In the middle of a step, another thread calls the functions of the trainer.
TEST(ExclusiveUse, ATrainerRefusesEveryCallDuringAStep) {
  Runtime runtime({.seed = 3, .threads = 2});
  SmallTraining training(runtime, "bf16");
  amp::Trainer& trainer = training.trainer;
  const StateDict state = trainer.state();
  const Tensor batch = test::image(1, 4);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"step", [&] { trainer.step(batch, [&](const Tensor& x) { return loss_of(training, x); }); }},
      {"preflight", [&] { trainer.preflight(batch, [&](const Tensor& x) { return loss_of(training, x); }); }},
      {"state", [&] { trainer.state(); }},
      {"state_hash", [&] { trainer.state_hash(); }},
      {"load_state", [&] { trainer.load_state(state); }},
      {"evaluate", [&] { trainer.evaluate([] { return 0; }); }},
      {"finished", [&] { trainer.finished(); }},
      {"synchronize", [&] { trainer.synchronize(); }},
      {"has_committed", [&] { trainer.has_committed(1); }},
      {"observe", [&] { trainer.observe(1); }},
      {"promote", [&] { trainer.promote("head/linear"); }},
      {"set_telemetry", [&] { trainer.set_telemetry(false); }},
      {"set_verify_every", [&] { trainer.set_verify_every(1); }},
      {"next_lr", [&] { trainer.next_lr(); }},
      {"scaler", [&] { trainer.scaler(); }},
      {"ema", [&] { trainer.ema(); }},
      {"telemetry", [&] { trainer.telemetry(); }},
      {"faults", [&] { trainer.faults(); }}};
  int runs = 0;
  const amp::StepResult result = trainer.step(batch, [&](const Tensor& x) {
    ++runs;
    for (const auto& [name, call] : calls) EXPECT_EQ(error_elsewhere(call), message("trainer", name, "step")) << name;
    EXPECT_EQ(error_elsewhere([&] { EXPECT_EQ(trainer.steps() + trainer.skipped() + trainer.in_flight(), 0); }),
              "no error");
    return loss_of(training, x);
  });
  EXPECT_TRUE(result.committed);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(trainer.steps(), 1);
}

TEST(ExclusiveUse, ATrainerRefusesAStepDuringAnEvaluation) {
  Runtime runtime({.seed = 3, .threads = 2});
  SmallTraining training(runtime, "bf16");
  const std::string error = training.trainer.evaluate([&] { return error_elsewhere([&] { training.steps(1); }); });
  EXPECT_EQ(error, message("trainer", "step", "evaluate"));
  training.steps(1);
  EXPECT_EQ(training.trainer.steps(), 1);
}

/// Two threads call without synchronization. Each call runs or is refused, and refused calls leave no trace.
TEST(ExclusiveUse, StepsAndSavesOfTwoThreadsAreMadeOrRefused) {
  constexpr int kSteps = 40;
  std::atomic<int> committed = 0;
  Runtime runtime({.seed = 3, .threads = 2});
  SmallTraining training(runtime, "bf16");
  test::Crowd crowd(3);
  crowd.run([&](int thread) {
    for (int k = 0; committed < kSteps; ++k) {
      try {
        if (thread == 2) {
          const StateDict state = training.trainer.state();
          EXPECT_EQ(state.integer("optim/updates"), state.integer("progress/step")) << "a save of half a step";
          continue;
        }
        const amp::StepResult result = training.trainer.step(test::image(k, 4),
                                                             [&](const Tensor& x) { return loss_of(training, x); });
        EXPECT_TRUE(result.committed);
        ++committed;
      } catch (const ArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("was called while another thread is inside of"), std::string::npos);
        std::this_thread::yield();  // the other thread may need the core to end its call
      }
    }
  });
  EXPECT_EQ(training.trainer.steps(), committed);
  EXPECT_EQ(training.trainer.state().integer("optim/updates"), committed);
}

TEST(ExclusiveUse, ATrainingRunRefusesASecondThread) {
  const io::ScratchFolder folder;
  Runtime runtime({.seed = 3, .threads = 2});
  SmallTraining training(runtime, "fp32");
  amp::TrainingRun run(training.trainer,
                       {.folder = folder.path("run"), .steps = 2, .log_every = 1000, .forecast_memory = false});
  const Tensor batch = test::image(1, 4);
  bool called = false;
  const auto loss = [&](const Tensor& x) {
    if (!std::exchange(called, true)) {
      EXPECT_EQ(error_elsewhere([&] { run.step(batch, [&](const Tensor& y) { return loss_of(training, y); }); }),
                message("training run", "step", "step"));
      EXPECT_EQ(error_elsewhere([&] { run.goes_on(); }), message("training run", "goes_on", "step"));
    }
    return loss_of(training, x);
  };
  while (run.goes_on()) EXPECT_TRUE(run.step(batch, loss).committed);
  EXPECT_EQ(run.end(), amp::RunEnd::kDone);
}

/// While another thread reads the trainer, a step of a run is refused and leaves no trace, or it commits and is
/// recorded.
TEST(ExclusiveUse, ATrainingRunRecordsEachStepBesideAThreadThatReadsItsTrainer) {
  const io::ScratchFolder folder;
  Runtime runtime({.seed = 3, .threads = 2});
  SmallTraining training(runtime, "fp32");
  amp::TrainingRun run(training.trainer,
                       {.folder = folder.path("run"), .steps = 1000, .log_every = 1000, .forecast_memory = false});
  run.begin();
  const Tensor batch = test::image(1, 4);
  std::atomic<bool> done = false;
  int recorded = 0;
  test::Crowd crowd(2);
  crowd.run([&](int thread) {
    if (thread == 1) {
      for (std::int64_t seen = 0; !done;) {
        const std::int64_t now = training.trainer.steps();
        EXPECT_LE(seen, now);
        seen = now;
        try {
          training.trainer.next_lr();
        } catch (const ArgumentError&) {  // the run is inside of a step
        }
      }
      return;
    }
    while (recorded < 50) {
      try {
        recorded += run.step(batch, [&](const Tensor& x) { return loss_of(training, x); }).committed ? 1 : 0;
      } catch (const ArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("step was called while another thread is inside of next_lr"),
                  std::string::npos)
            << error.what();
        std::this_thread::yield();  // the other thread may need the core to end its call
      }
    }
    done = true;
  });
  EXPECT_EQ(training.trainer.steps(), recorded);
}

/// In each step, the run claims its trainer before the step begins, and until the step is recorded.
TEST(ExclusiveUse, ATrainingRunClaimsItsTrainer) {
  const io::ScratchFolder folder;
  Runtime runtime({.seed = 3, .threads = 2});
  SmallTraining training(runtime, "fp32");
  std::string error;
  amp::TrainingRun run(training.trainer, {.folder = folder.path("run"),
                                          .steps = 1,
                                          .log_every = 1000,
                                          .evaluate =
                                              [&] {
                                                error = error_elsewhere([&] { training.trainer.next_lr(); });
                                                return amp::Evaluation{};
                                              },
                                          .forecast_memory = false});
  const Tensor batch = test::image(1, 4);
  while (run.goes_on()) EXPECT_TRUE(run.step(batch, [&](const Tensor& x) { return loss_of(training, x); }).committed);
  EXPECT_EQ(error, message("trainer", "next_lr", "goes_on"));
}

TEST(ExclusiveUse, AHandWrittenTransactionRefusesASecondThread) {
  Runtime runtime({.seed = 3, .threads = 2});
  nn::Linear model({.in = 2, .out = 1});
  optim::Sgd optimizer(model, {.lr = 0.1});
  amp::StepTransaction transaction({&model}, {&optimizer});
  const bool committed = transaction.run([&] {
    EXPECT_EQ(error_elsewhere([&] { transaction.run([] {}); }), message("step transaction", "run", "run"));
    EXPECT_EQ(error_of<ArgumentError>([&] { transaction.run([] {}); }),
              "step transaction: run was called inside of a step of the same transaction");
  });
  EXPECT_TRUE(committed);
}

/// Two threads step one optimizer without synchronization. No update is lost or made in part.
TEST(ExclusiveUse, AnOptimizerMakesOrRefusesEachUpdate) {
  Runtime runtime({.seed = 3, .threads = 2});
  nn::Linear model({.in = 256, .out = 256});
  optim::Sgd optimizer(model, {.lr = 0});
  backward(mean(square(model(Tensor::full({4, 256}, 1)))));
  std::atomic<int> made = 0;
  test::Crowd crowd(2);
  crowd.run([&](int) {
    for (int k = 0; k < 50; ++k)
      if (const std::string error = error_of<ArgumentError>([&] { optimizer.step(); }); error == "no error")
        ++made;
      else
        EXPECT_EQ(error, message("optimizer", "step", "step"));
  });
  EXPECT_EQ(optimizer.updates(), made);
}

}  // namespace
}  // namespace binade
