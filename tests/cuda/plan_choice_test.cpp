#include "binade/cuda/device/plan_choice.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "tests/io/scratch_folder.h"

// Tests the choice of the fastest plan, and the file that stores the choices for a machine. The times are given, so
// that no GPU and no library is needed.
namespace binade::cuda {
namespace {

std::vector<std::string> g_told;
void tell(const std::string& line) { g_told.push_back(line); }

using Times = std::vector<std::optional<double>>;

class PlanChoice : public testing::Test {
 protected:
  void SetUp() override { g_told.clear(); }

  std::string file() const { return folder_.path("plans/card.txt"); }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file()).rdbuf();
    return all.str();
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_.path("plans"));
    std::ofstream(file()) << text;
  }
  /// The plan that a process chooses for `key`, and the number of plans that it timed.
  struct Chosen {
    std::string line;
    std::size_t timed = 0;
  };
  static Chosen choose(PlanChooser& chooser, const std::string& key, const Times& times) {
    PlanChooser::Selection turn(chooser, key);
    if (const auto line = turn.line()) return {*line};
    Chosen chosen;
    const auto found = turn.fastest(
        times.size(),
        [&](std::size_t i) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));  // as long as a real measurement
          return ++chosen.timed, times[i];
        },
        [&](std::size_t i) { return times[i].has_value(); });
    chosen.line = key + " = " + (found ? std::to_string(*found) : "own");
    turn.keep(chosen.line);
    return chosen;
  }
  static std::string told() {
    std::string all;
    for (const std::string& line : g_told) all += line + "\n";
    return all;
  }

  io::ScratchFolder folder_;
};

TEST_F(PlanChoice, TheFastestIsStoredAndUsedByTheNextProcess) {
  const PlanSettings settings{.timed = true, .file = file(), .seconds = 10};
  PlanChooser first(&tell);
  first.configure(settings);
  const Chosen a = choose(first, "conv a", {3.0, 1.0, 2.0});
  EXPECT_EQ(a.line, "conv a = 1");
  EXPECT_EQ(a.timed, 3u);
  EXPECT_EQ(choose(first, "conv b", {1.0, 0.99, {}}).line, "conv b = 0") << "a tie within noise goes to the earlier";
  EXPECT_EQ(choose(first, "conv c", {{}, {}, 4.0}).line, "conv c = 2");
  EXPECT_EQ(choose(first, "conv d", {{}, {}}).line, "conv d = own");
  const Chosen only = choose(first, "conv e", {7.0});
  EXPECT_EQ(only.timed, 0u) << "one needs no time";
  EXPECT_EQ(g_told.size(), 1u) << told();

  g_told.clear();
  PlanChooser second(&tell);
  second.configure(settings);
  const Chosen again = choose(second, "conv a", {1.0, 3.0, 2.0});
  EXPECT_EQ(again.line, "conv a = 1") << "the first times decide for ever";
  EXPECT_EQ(again.timed, 0u);
  EXPECT_TRUE(g_told.empty()) << told();
}

TEST_F(PlanChoice, WithoutTimesOrAFileTheFirstIsUsed) {
  PlanChooser first(&tell);
  EXPECT_EQ(choose(first, "conv a", {{}, 2.0, 1.0}).line, "conv a = 1");
  first.configure({.timed = false, .file = file(), .seconds = 10});
  EXPECT_EQ(choose(first, "conv b", {2.0, 1.0}).line, "conv b = 0");
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_TRUE(g_told.empty()) << told();

  write("");
  const std::string below = file() + "/plans.txt";  // a path below a file, which cannot exist
  first.configure({.timed = true, .file = below, .seconds = 10});
  const Chosen chosen = choose(first, "conv c", {2.0, 1.0});
  EXPECT_EQ(chosen.line, "conv c = 0") << "what cannot be kept is not chosen by time";
  EXPECT_EQ(chosen.timed, 0u);
  choose(first, "conv d", {2.0, 1.0});
  ASSERT_EQ(g_told.size(), 1u) << told();
  EXPECT_NE(told().find(below), std::string::npos);
}

TEST_F(PlanChoice, DamagedLinesAreSkippedAndReportedOnce) {
  write("conv a = 2\n\x01\x02rubbish\nno plan\ngemm in=f32 algorithm=ff\nconv b = 1");  // the last line is incomplete
  PlanChooser chooser(&tell);
  chooser.configure({.timed = true, .file = file(), .seconds = 10});
  EXPECT_EQ(choose(chooser, "conv a", {1.0, 2.0}).line, "conv a = 2");
  EXPECT_EQ(choose(chooser, "gemm in=f32", {1.0, 2.0}).line, "gemm in=f32 algorithm=ff");
  EXPECT_EQ(choose(chooser, "conv b", {1.0, 2.0}).line, "conv b = 0");
  ASSERT_EQ(g_told.size(), 2u) << told();
  EXPECT_NE(g_told[0].find("passed by"), std::string::npos);
  PlanChooser next(&tell);
  next.configure({.timed = true, .file = file(), .seconds = 10});
  EXPECT_EQ(choose(next, "conv b", {2.0, 1.0}).line, "conv b = 0") << text();
}

TEST_F(PlanChoice, TheTimeLimitOfAProcessIsKept) {
  PlanChooser chooser(&tell);
  chooser.configure({.timed = true, .file = file(), .seconds = 0.01});
  {
    PlanChooser::Selection turn(chooser, "conv a");
    std::size_t timed = 0;
    const auto slow = [&](std::size_t i) {
      ++timed;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return std::optional<double>(i == 0 ? 2.0 : 1.0);
    };
    EXPECT_EQ(turn.fastest(3, slow, [](std::size_t) { return true; }), 0u);
    EXPECT_EQ(timed, 1u);
    turn.keep("conv a = 0");
  }
  const Chosen late = choose(chooser, "conv b", {2.0, 1.0});
  EXPECT_EQ(late.line, "conv b = 0");
  EXPECT_EQ(late.timed, 0u);
  EXPECT_NE(told().find("are spent"), std::string::npos);
  PlanChooser next(&tell);
  next.configure({.timed = true, .file = file(), .seconds = 10});
  EXPECT_EQ(choose(next, "conv b", {2.0, 1.0}).timed, 0u) << "a fresh run computes what the one before did";
}

/// Eight processes begin at the same time, and each measures another plan as the fastest.
TEST_F(PlanChoice, ConcurrentProcessesAgree) {
  constexpr int kProcesses = 8, kKeys = 20;
  std::vector<pid_t> children;
  int start[2] = {};
  ASSERT_EQ(pipe(start), 0);
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      char word = 0;
      if (close(start[1]) != 0 || read(start[0], &word, 1) != 0) _exit(1);  // waits until the other end is closed
      PlanChooser chooser(&tell);
      chooser.configure({.timed = true, .file = file(), .seconds = 10});
      std::ofstream out(folder_.path("of" + std::to_string(p)));
      Times times(kProcesses, 2.0);
      times[static_cast<std::size_t>(p)] = 1.0;
      for (int k = 0; k < kKeys; ++k) out << choose(chooser, "conv " + std::to_string(k), times).line << "\n";
      out.close();
      _exit(0);
    }
    children.push_back(child);
  }
  close(start[1]);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const std::string first = folder_.read("of0");
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), kKeys);
  for (int p = 1; p < kProcesses; ++p) EXPECT_EQ(folder_.read("of" + std::to_string(p)), first);
}

}  // namespace
}  // namespace binade::cuda
