#include "binade/io/files/run_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "binade/core/error.h"
#include "binade/io/terminal/signals.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::permissions(folder_, fs::perms::owner_all); }
  std::string path(const std::string& name) const { return scratch_.path(name); }
  ScratchFolder scratch_;
  std::string folder_ = scratch_.path();
};

TEST_F(RunFolderTest, IsCreatedWithItsParentsAndKeepsItsConfig) {
  const std::string at = path("a/b/run");
  {
    RunFolder run = RunFolder::create(at);
    EXPECT_TRUE(fs::is_directory(run.checkpoints()));
    run.write_config("{\"seed\": 1}");
    run.write_config("{\"seed\": 2}");
    EXPECT_EQ(run.read_config(), "{\"seed\": 2}");
    EXPECT_EQ(read_run_config(at), "{\"seed\": 2}");  // while it is locked
  }
  EXPECT_EQ(RunFolder::resume(at).read_config(), "{\"seed\": 2}");
}

TEST_F(RunFolderTest, ARunIsNeverOverwritten) {
  RunFolder::create(path("run")).write_config("{}");
  const auto before = fs::last_write_time(path("run"));
  EXPECT_THROW(RunFolder::create(path("run")), ArgumentError);
  EXPECT_EQ(fs::last_write_time(path("run")), before);
  fs::create_directories(path("other/checkpoints"));
  std::ofstream(path("other/checkpoints/ckpt-000000000001.h5")) << "x";
  EXPECT_THROW(RunFolder::create(path("other")), ArgumentError);
  fs::create_directories(path("files"));
  std::ofstream(path("files/notes.txt")) << "x";
  EXPECT_NO_THROW(RunFolder::create(path("files")));
}

TEST_F(RunFolderTest, WithNothingToResumeThrowsAndCreatesNothing) {
  EXPECT_THROW(RunFolder::resume(path("missing")), NoCheckpointError);
  EXPECT_FALSE(fs::exists(path("missing")));
  fs::create_directory(path("empty"));
  EXPECT_THROW(RunFolder::resume(path("empty")), NoCheckpointError);
  EXPECT_TRUE(fs::is_empty(path("empty")));
}

TEST_F(RunFolderTest, AnImpossiblePathIsAStorageError) {
  std::ofstream(path("file")) << "x";
  EXPECT_THROW(RunFolder::create(path("file")), StorageError);
  EXPECT_THROW(RunFolder::create(path("file/run")), StorageError);
  EXPECT_THROW(RunFolder::create("/proc/binade-run"), StorageError);
}

TEST_F(RunFolderTest, NextFreeSkipsExistingNames) {
  EXPECT_EQ(RunFolder::next_free(folder_, "gpt"), path("gpt-1"));
  fs::create_directory(path("gpt-1"));
  std::ofstream(path("gpt-2")) << "a file";
  EXPECT_EQ(RunFolder::next_free(folder_, "gpt"), path("gpt-3"));
}

TEST_F(RunFolderTest, ASecondWriterGetsAnErrorWithThePidOfTheFirst) {
  RunFolder run = RunFolder::create(path("run"));
  run.write_config("{}");
  for (const bool resume : {false, true}) try {
      resume ? RunFolder::resume(path("run")) : RunFolder::create(path("run"));
      ADD_FAILURE() << "two writers";
    } catch (const LockError& e) {
      if (resume) {
        EXPECT_NE(std::string(e.what()).find("pid " + std::to_string(::getpid())), std::string::npos) << e.what();
      }
    }
}

TEST_F(RunFolderTest, TheLockEndsWithItsProcess) {
  RunFolder::create(path("run")).write_config("{}");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunFolder held = RunFolder::resume(path("run"));
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunFolder::resume(path("run")), LockError);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_NO_THROW(RunFolder::resume(path("run")));
}

TEST(StopSignalsTest, TheFirstSignalRequestsAStopAndIsRecorded) {
  StopSignals signals;
  EXPECT_FALSE(StopSignals::stop_requested());
  ::raise(SIGTERM);
  EXPECT_TRUE(StopSignals::stop_requested());
  EXPECT_EQ(StopSignals::signal_received(), SIGTERM);
  EXPECT_THROW(StopSignals(), ArgumentError);
}

TEST(StopSignalsTest, TheSecondSignalEndsTheProcessWithExitCode11) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a new process, independent of threads in this one
  for (const auto& [first, second] : {std::pair{SIGTERM, SIGTERM}, {SIGINT, SIGTERM}, {SIGINT, SIGINT}})
    EXPECT_EXIT(
        {
          StopSignals signals;
          ::raise(first);
          if (!StopSignals::stop_requested()) ::_exit(1);
          ::raise(second);
          ::_exit(2);
        },
        testing::ExitedWithCode(11), "stopped at once by a second signal; the last commit is intact");
}

/// Asks the parent process for a signal, and waits until it has sent it.
void let_parent_send(int to_parent, int from_parent) {
  char byte = 0;
  ASSERT_EQ(::write(to_parent, &byte, 1), 1);
  ASSERT_EQ(::read(from_parent, &byte, 1), 1);
}

TEST(StopSignalsTest, ARequestThatTheLauncherPassesOnIsNotASecondOne) {
  // The user sends a signal to all processes of a job: the rank gets it directly, and once more from the launcher.
  for (const auto& [from_launcher, at_once, wanted] :
       {std::tuple{1, false, 10}, {2, false, 11}, {1, true, 11}, {0, false, 10}}) {
    int to_parent[2], to_child[2];
    ASSERT_EQ(::pipe(to_parent), 0);
    ASSERT_EQ(::pipe(to_child), 0);
    const pid_t launcher = ::getpid(), child = ::fork();
    if (child == 0) {
      ::setenv(StopSignals::kLauncher, std::to_string(launcher).c_str(), 1);
      const StopSignals signals;
      ::raise(SIGTERM);  // from this process: anybody
      for (int i = 0; i < from_launcher; ++i) let_parent_send(to_parent[1], to_child[0]);
      ::_exit(StopSignals::stop_requested() ? 10 : 2);
    }
    for (int i = 0; i < from_launcher; ++i) {
      char byte = 0;
      ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
      sigval value{};
      value.sival_int = StopSignals::kAtOnce;
      at_once ? ::sigqueue(child, SIGTERM, value) : ::kill(child, SIGTERM);
      ASSERT_EQ(::write(to_child[1], &byte, 1), 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), wanted) << from_launcher << " " << at_once;
    for (const int end : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) ::close(end);
  }
}

TEST(StopSignalsTest, ARequestThatTheSupervisorPassesOnIsNotASecondOne) {
  // A service manager sends a signal to all processes of a service: the child gets it directly, and once more from the
  // supervisor.
  for (const auto& [from_supervisor, wanted] : {std::pair{1, 10}, {2, 11}}) {
    int to_parent[2], to_child[2];
    ASSERT_EQ(::pipe(to_parent), 0);
    ASSERT_EQ(::pipe(to_child), 0);
    const pid_t supervisor = ::getpid(), child = ::fork();
    if (child == 0) {
      StopSignals::set_supervisor(supervisor);
      const StopSignals signals;
      ::raise(SIGTERM);  // from this process: anybody
      for (int i = 0; i < from_supervisor; ++i) let_parent_send(to_parent[1], to_child[0]);
      ::_exit(StopSignals::stop_requested() ? 10 : 2);
    }
    for (int i = 0; i < from_supervisor; ++i) {
      char byte = 0;
      ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
      ::kill(child, SIGTERM);
      ASSERT_EQ(::write(to_child[1], &byte, 1), 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), wanted);
    for (const int end : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) ::close(end);
  }
}

TEST(StopSignalsTest, WritingToAClosedPipeIsAnErrorAndDoesNotKill) {
  StopSignals signals;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "x", 1), -1);
  ::close(ends[1]);
}

}  // namespace
}  // namespace binade::io
