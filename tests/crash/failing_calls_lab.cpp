#include <fmt/core.h>

#include <cerrno>

#include "tests/crash/lab.h"
#include "tests/crash/story.h"

namespace binade::crash {

namespace {

/// 0 stands for reads and writes that do half of what was asked; the last two say that the file system cannot.
constexpr int kErrors[] = {EIO, ENOSPC, EINTR, EACCES, EMFILE, EROFS, EDQUOT, ENOMEM, 0, EINVAL, ENOTSUP};
constexpr const char* kActionNames[] = {"open",      "save", "save another state of the step",
                                        "roll back", "load", "resume"};

/// A story whose run has two checkpoints at least.
std::uint64_t next_story(std::uint64_t seed, int actions) {
  while (true) {
    const Story story(seed, actions, {});
    if (story.trouble().empty() && story.promise_at(story.disk().now()).kept.size() >= 2) return seed;
    ++seed;
  }
}

}  // namespace

void failing_calls(const Assignment& assignment, Findings& findings) {
  constexpr int kActionsBefore = 5;
  const std::int64_t stories = assignment.cases > 0 ? assignment.cases : assignment.full ? 20 : 2;
  std::int64_t cells = 0;
  std::uint64_t seed = 1000 * assignment.seed;
  for (std::int64_t n = 0; n < stories; ++n, ++seed) {
    seed = next_story(seed, kActionsBefore);
    for (const Story::Action action : Story::kActions)
      for (const int error : kErrors)
        for (const bool lasts : {false, true}) {
          bool fired = true;
          int silent = 0;  // reads and writes are only some of the calls
          for (int call = 0; fired || (error == 0 && silent < 40); ++call) {
            Story story(seed, kActionsBefore, {.looks = false});
            const Fault fault{error, call, lasts};
            const std::string wrong = story.attempt(action, fault, fired);
            silent = fired ? 0 : silent + 1;
            if (fired) ++cells;
            if (wrong.empty()) continue;
            findings.violation(fmt::format(
                "story {}, {}, call {}{}, {}: {}", seed, kActionNames[static_cast<std::size_t>(action)], call,
                lasts ? " and all after it" : "", error == 0 ? "half" : io::error_text(error), wrong));
          }
        }
  }
  findings.count("stories of a run", stories);
  findings.count("kinds of failure, each once and from then on", static_cast<std::int64_t>(std::size(kErrors)));
  findings.count_at_least("calls that failed: open, save, save again, roll back, load, resume", cells, 1500 * stories);
}

}  // namespace binade::crash
