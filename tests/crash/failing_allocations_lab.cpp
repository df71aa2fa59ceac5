#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/crash/experiments.h"
#include "tests/crash/story.h"

namespace binade::crash {

namespace {

using Action = Story::Action;
constexpr Action kActions[] = {Action::kOpen,     Action::kSave, Action::kSaveBehind, Action::kReplace,
                               Action::kRollBack, Action::kLoad, Action::kResume};
constexpr unsigned kPatience = 20;  // seconds after which an action counts as hanging; it takes milliseconds

char g_doing[256];

/// Handles the signals of std::terminate and of a hang, which cannot be caught: reports the violation and exits.
void report_end(int signal) {
  const char* what = signal == SIGALRM ? "VIOLATION it hangs: " : "VIOLATION it ended the process: ";
  for (const char* text : {what, static_cast<const char*>(g_doing), "\n"})
    if (::write(STDOUT_FILENO, text, std::strlen(text)) < 0) break;
  ::_exit(1);
}

/// Reports the case in progress if it ends the process or hangs.
class Watch {
 public:
  Watch() {
    ::signal(SIGALRM, report_end);
    ::signal(SIGABRT, report_end);
  }
  ~Watch() {
    ::alarm(0);
    ::signal(SIGALRM, SIG_DFL);
    ::signal(SIGABRT, SIG_DFL);
  }
  void begin(const std::string& what) {
    std::strncpy(g_doing, what.c_str(), sizeof(g_doing) - 1);
    ::alarm(kPatience);
  }
};

}  // namespace

void failing_allocations(const Assignment& assignment, Findings& findings) {
  constexpr int kActionsBefore = 5;
  constexpr std::int64_t kAllocationsOfAStory = 1000;  // minimum number of allocations in a story
  const std::int64_t stories = assignment.full ? 10 : 1;
  const std::int64_t floor = assignment.full        ? kAllocationsOfAStory * stories
                             : assignment.cases > 0 ? std::min(assignment.cases, kAllocationsOfAStory)
                                                    : kAllocationsOfAStory;
  const int stride = static_cast<int>(kAllocationsOfAStory * stories / floor);
  std::int64_t struck = 0;
  int first = 0;
  std::uint64_t seed = 1000 * assignment.seed;
  std::optional<Watch> watch(std::in_place);
  for (std::int64_t n = 0; n < stories; ++n, ++seed) {
    seed = Story::next_with_two_checkpoints(seed, kActionsBefore);
    for (const Action action : kActions)
      for (const bool lasts : {false, true}) {
        Story::Attempt attempt;
        int call = first;
        do {
          const std::string what = fmt::format("story {}, {}, allocation {}{}", seed, name_of(action), call,
                                               lasts ? " and all after it" : "");
          watch->begin(what);
          Story story(seed, kActionsBefore, {.looks = false});
          attempt = story.attempt(action, Shortage{call, lasts});
          struck += attempt.struck ? 1 : 0;
          if (!attempt.wrong.empty()) findings.violation(what + ": " + attempt.wrong);
          call += stride;
        } while (attempt.reached);
        first = (first + 1) % stride;
      }
  }
  watch.reset();
  findings.count("stories of a run", stories);
  findings.count_at_least("allocations that failed: open, save, save behind, save again, roll back, load, resume",
                          struck, floor);
  if (assignment.cases == 0) starve_programs(assignment.seed, assignment.full ? 1000 : 50, findings);
}

}  // namespace binade::crash
