#include "binade/run/supervisor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "binade/core/error.h"

namespace binade::amp {
namespace {

namespace fs = std::filesystem;

class Supervise : public testing::Test {
 protected:
  Supervise() : folder_(fs::temp_directory_path() / fmt::format("binade-supervise-{}", ::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "checkpoints");
  }
  ~Supervise() override { fs::remove_all(folder_); }

  /// Supervises child processes. Child number i runs work(i) and exits with its result, so that it never continues the
  /// test.
  int supervise(const std::function<int(int)>& work, double pause = 0.001) const {
    return amp::supervise({.folder = folder_, .pause = pause, .longest_pause = 2 * pause}, [&](int life) -> int {
      append("lives", std::to_string(life));
      const int code = work(life);
      ::_exit(code);
    });
  }
  void append(const char* file, const std::string& line) const {
    std::ofstream(folder_ / file, std::ios::app) << line << '\n';
  }
  void reach(int step) const { append("metrics.jsonl", fmt::format("{{\"step\":{},\"attempt\":1}}", step)); }
  void commit(int step) const { append(fmt::format("checkpoints/ckpt-{:012}.h5", step).c_str(), ""); }
  std::string text(const fs::path& file) const {
    std::ostringstream all;
    all << std::ifstream(folder_ / file).rdbuf();
    return all.str();
  }
  int lives() const {
    const std::string all = text("lives");
    return static_cast<int>(std::ranges::count(all, '\n'));
  }

  fs::path folder_;
};

TEST_F(Supervise, ARunThatEndsIsNotRestarted) {
  for (const int code : {0, 20, 21, 22, 23, 30, 40}) {
    fs::remove(folder_ / "lives");
    EXPECT_EQ(supervise([&](int) { return code; }), code);
    EXPECT_EQ(lives(), 1) << code;
  }
}

TEST_F(Supervise, AChildThatDiesIsRestartedUntilItEnds) {
  const auto die_in_all_ways = [&](int life) {
    reach(life + 1);
    commit(life + 1);
    switch (life) {
      case 0: ::raise(SIGKILL); break;
      case 1:
        ::signal(SIGSEGV, SIG_DFL);
        ::raise(SIGSEGV);
        break;
      case 2: return 70;
      case 3: return 51;
      case 4: return 24;
      case 5: return 10;  // the child was stopped, but the supervisor was not
      default: break;
    }
    return 0;
  };
  EXPECT_EQ(supervise(die_in_all_ways), 0);
  EXPECT_EQ(lives(), 7);
  EXPECT_NE(text("events.jsonl").find(R"({"step":1,"kind":"died","what":"killed by signal 9)"), std::string::npos);
}

TEST_F(Supervise, GivesUpAfterThreeDeathsAtTheSameStep) {
  EXPECT_EQ(supervise([&](int) -> int {
              reach(17);
              return ::raise(SIGKILL);
            }),
            70);
  EXPECT_EQ(lives(), 3);
  EXPECT_NE(text("events.jsonl").find("\"kind\":\"given-up\""), std::string::npos);
  EXPECT_NE(text("incidents/000000000017/report.md").find("killed by signal 9"), std::string::npos);
  EXPECT_NE(text("incidents/000000000017/report.json").find("\"kind\":\"crash\""), std::string::npos);
}

TEST_F(Supervise, DeathsBeforeTheResumeDoNotCountForTheStep) {
  reach(17);
  EXPECT_EQ(supervise([&](int life) -> int { return life < 5 ? ::raise(SIGKILL) : 0; }), 0);
  EXPECT_EQ(lives(), 6);
}

TEST_F(Supervise, DeathsAfterTheResumeCountForTheStep) {
  reach(17);
  EXPECT_EQ(supervise([&](int) -> int {
              append("events.jsonl", R"({"step":17,"kind":"resumed","what":"resumed from ckpt-000000000017.h5"})");
              return ::raise(SIGKILL);
            }),
            70);
  EXPECT_EQ(lives(), 3);
}

TEST_F(Supervise, ASignalWhileNoChildRunsEndsWithExitCode10) {
  const pid_t supervisor = ::fork();
  if (supervisor == 0) ::_exit(supervise([&](int) -> int { return ::raise(SIGKILL); }, 3600));
  while (text("events.jsonl").find("\"kind\":\"died\"") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(supervisor, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(supervisor, &status, 0), supervisor);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 10);
  EXPECT_EQ(lives(), 1);
  EXPECT_NE(text("events.jsonl").find("\"kind\":\"stopped\""), std::string::npos);
}

TEST_F(Supervise, GivesUpAfterTenDeathsWithoutACheckpoint) {
  EXPECT_EQ(supervise([&](int life) {
              reach(100 + life);
              return 70;
            }),
            70);
  EXPECT_EQ(lives(), 10);
}

TEST_F(Supervise, ASignalIsPassedOnToTheChild) {
  const pid_t supervisor = ::fork();
  if (supervisor == 0)
    ::_exit(supervise([&](int) -> int {
      sigset_t term;
      sigemptyset(&term);
      sigaddset(&term, SIGTERM);
      ::sigprocmask(SIG_BLOCK, &term, nullptr);
      append("ready", "");
      int signal = 0;
      sigwait(&term, &signal);
      return 10;
    }));
  while (!fs::exists(folder_ / "ready")) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(supervisor, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(supervisor, &status, 0), supervisor);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 10);
  EXPECT_EQ(lives(), 1);
}

}  // namespace
}  // namespace binade::amp
