#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/store.h"
#include "binade/io/files/read_file.h"
#include "binade/run/blocked_signals.h"
#include "binade/run/launch.h"
#include "binade/run/launched_processes.h"
#include "binade/run/rank_run.h"
#include "binade/run/training_run.h"
#include "tests/ranks/expect_error.h"
#include "tests/ranks/small_task.h"

namespace binade::ranks_test {
namespace {

namespace fs = std::filesystem;

/// An empty folder that is removed at the end.
struct Folder {
  Folder() : path(fs::temp_directory_path() / fmt::format("binade-ranks-{}", getpid())) { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

/// Runs or resumes a run of `steps` updates on thread ranks. Returns the state hash of every rank.
std::vector<std::string> run(int ranks, const std::string& folder, std::int64_t steps, const Settings& settings) {
  std::vector<std::string> hashes(static_cast<std::size_t>(ranks));
  run_thread_ranks(ranks,
                   [&](const std::shared_ptr<Communicator>& self) {
                     Training training(self, settings);
                     amp::TrainingRun run(training.trainer,
                                          {.folder = folder,
                                           .steps = steps,
                                           .checkpoint_every = 2,
                                           .checkpoint_minutes = 0,
                                           .eval_every = 2,
                                           .evaluate =
                                               [&] {
                                                 return amp::Evaluation{.numbers = {{"score", 1.0 / steps}}};
                                               },
                                           .score = "score"});
                     training.trainer.attach(training.loader);
                     run.resume_if_possible();
                     for (const auto& batch : run.batches(training.loader))
                       run.step(batch, [&](const Batch& b) { return nn::mse(training.net(b.x), b.y); });
                     EXPECT_EQ(run.end(), amp::RunEnd::kDone);
                     EXPECT_EQ(training.trainer.steps(), steps);
                     hashes[static_cast<std::size_t>(self->rank())] = training.trainer.state_hash();
                   },
                   {.deadline = std::chrono::seconds(60)});
  return hashes;
}

/// Returns the state of the newest checkpoint of a run.
StateDict newest(const fs::path& folder) {
  return io::CheckpointStore((folder / "checkpoints").string()).load_newest().state;
}

TEST(RunOverRanks, WritesTheCheckpointsOfOneRankAndResumesWithAnyNumber) {
  const Settings settings{.policy = "fp16", .leaves = 8};
  Folder base;
  fs::create_directories(base.path);
  const std::string one = base.path / "one", many = base.path / "many";
  const std::string wanted = run(1, one, 6, settings).front();
  for (const std::string& hash : run(4, many, 2, settings)) EXPECT_NE(hash, wanted);
  for (const std::string& hash : run(3, many, 4, settings)) EXPECT_NE(hash, wanted);
  for (const std::string& hash : run(2, many, 6, settings)) EXPECT_EQ(hash, wanted);
  const StateDict a = newest(one), b = newest(many);
  // The sizes of the logs differ, because the run was resumed.
  const auto is_of_log = [](const std::string& name) { return name == "progress/metrics_bytes"; };
  ASSERT_EQ(a.values().size(), b.values().size());
  StateDict x, y;
  for (const auto& [name, value] : a.values())
    if (!is_of_log(name)) x.put(name, value);
  for (const auto& [name, value] : b.values())
    if (!is_of_log(name)) y.put(name, value);
  const io::CheckpointImage p = io::encode_checkpoint(x, ""), q = io::encode_checkpoint(y, "");
  EXPECT_TRUE(std::ranges::equal(p.bytes(), q.bytes()));
}

TEST(RunOverRanks, OneRankWritesOneFolder) {
  Folder base;
  run(3, base.path.string(), 2, {});
  int checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(base.path / "checkpoints"))
    checkpoints += entry.path().extension() == ".h5";
  EXPECT_GE(checkpoints, 1);
  const std::string metrics = io::read_file((base.path / "metrics.jsonl").string(), 1 << 20);
  std::size_t steps = 0;
  for (std::size_t at = 0; (at = metrics.find("\"loss\":", at)) != metrics.npos; ++at) ++steps;
  EXPECT_EQ(steps, 2u) << metrics;
}

TEST(RunOverRanks, ARollbackIsThatOfOneRank) {
  Settings settings{.steps = 6, .inject = {"nan-weight@step=4,path=out"}};
  Folder base;
  fs::create_directories(base.path);
  const std::string wanted = run(1, base.path / "one", 6, settings).front();
  for (const std::string& hash : run(2, base.path / "two", 6, settings)) EXPECT_EQ(hash, wanted);
}

TEST(RunOverRanks, AStateThatOneRankHasAloneIsNotSavedAndTheRunGoesOnWithTheUndisturbedBits) {
  Folder base;
  fs::create_directories(base.path);
  const std::string wanted = run(1, base.path / "one", 6, {}).front(), two = base.path / "two";
  const Settings settings{.inject = {"scale-weight@step=3,path=out,factor=1.001,rank=1"}};
  test::expect_error<RankError>([&] { run(2, two, 6, settings); }, {"rank 1 and rank 0 disagree about", "not saved"});
  EXPECT_TRUE(fs::exists(fs::path(two) / "drills-rank-1.jsonl"));
  EXPECT_EQ(newest(two).integer("progress/step"), 2);
  // The resumed run does not inject the fault again.
  for (const std::string& hash : run(2, two, 6, settings)) EXPECT_EQ(hash, wanted);
}

TEST(StopRequest, NamesTheSignalAndTheRanksThatHaveReceivedIt) {
  EXPECT_EQ((amp::StopRequest{15, {}}.text()), "signal 15");
  EXPECT_EQ((amp::StopRequest{2, {3}}.text()), "signal 2 to rank 3");
  EXPECT_EQ((amp::StopRequest{15, {0, 2}}.text()), "signal 15 to ranks 0, 2");
}

/// Starts `sleep 600`, with SIGTERM and SIGINT blocked.
pid_t start_sleep() {
  const pid_t child = fork();
  if (child == 0) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    execlp("sleep", "sleep", "600", nullptr);
    _exit(127);
  }
  return child;
}

TEST(LaunchedProcesses, AreFoundByTheirProgramAndTheirBlockedSignalsAreSeen) {
  const pid_t child = start_sleep();
  std::string program;
  while ((program = amp::program_of(child)).find("sleep") == program.npos &&
         program.find("coreutils") == program.npos && program.find("busybox") == program.npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the child has executed sleep
  std::vector<amp::LaunchedProcess> found = amp::processes_below(getpid(), program);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, child);
  EXPECT_EQ(found[0].rank, 4);
  EXPECT_EQ(amp::pending_stop_of(child), 0);
  kill(child, SIGINT);
  EXPECT_EQ(amp::pending_stop_of(child), SIGINT);
  EXPECT_TRUE(amp::processes_below(getpid(), "/no/program").empty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(amp::program_of(child), "");
}

TEST(LaunchedProcesses, AreFoundAfterTheirProgramWasBuiltAgain) {
  const Folder base;
  fs::create_directories(base.path);
  const fs::path program = base.path / "program";
  fs::copy_file("/bin/sleep", program);
  int ends[2];  // exec closes the write end: the child is now the program
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    execl(program.c_str(), "sleep", "600", nullptr);
    _exit(127);
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
  fs::remove(program);
  EXPECT_EQ(amp::program_of(child), program);
  EXPECT_EQ(amp::processes_below(getpid(), program).size(), 1u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(BlockedSignals, AChildIsWaitedForAlthoughSigchldWasIgnored) {
  const pid_t parent = fork();
  if (parent == 0) {
    signal(SIGCHLD, SIG_IGN);  // a process inherits ignored signals from its parent
    amp::BlockedSignals signals;
    const pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    const bool waited = waitpid(child, &status, 0) == child;
    _exit(waited && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(BlockedSignals, TheSenderIsKnown) {
  amp::BlockedSignals signals;
  EXPECT_EQ(signals.wait(0), 0);
  EXPECT_EQ(signals.sender(), 0);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(signals.wait(0), SIGTERM);
  EXPECT_EQ(signals.sender(), getpid());
}

TEST(Launch, GivesEachMpiTheFlagsThatItNeeds) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(
      amp::mpirun_command("mpirun", "mpirun (Open MPI) 4.1.4\n", 4),
      (Words{"mpirun", "-n", "4", "--bind-to", "none", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "3"}));
  EXPECT_EQ(amp::mpirun_command("/opt/mpirun", "mpirun (Open MPI) 5.0.11\n", 2),
            (Words{"/opt/mpirun", "-n", "2", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"}));
  EXPECT_EQ(amp::mpirun_command("mpirun", "HYDRA build details:\n Version: 4.0.2\n", 2), (Words{"mpirun", "-n", "2"}));
}

}  // namespace
}  // namespace binade::ranks_test
