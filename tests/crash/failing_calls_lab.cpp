#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "tests/crash/experiments.h"
#include "tests/crash/story.h"

namespace binade::crash {

namespace {

/// The errno values with which calls fail. 0: a read or write transfers half of the bytes. EINVAL and ENOTSUP: the file
/// system does not support the call.
constexpr int kErrors[] = {EIO, ENOSPC, EINTR, EACCES, EMFILE, EROFS, EDQUOT, ENOMEM, 0, EINVAL, ENOTSUP};
using Action = Story::Action;
constexpr Action kActions[] = {Action::kOpen,     Action::kSave, Action::kReplace,
                               Action::kRollBack, Action::kLoad, Action::kResume};

}  // namespace

void failing_calls(const Assignment& assignment, Findings& findings) {
  constexpr int kActionsBefore = 5;
  constexpr std::int64_t kCallsOfAStory = 1500;  // minimum number of calls in a story
  const std::int64_t stories = assignment.cases > 0 ? 1 : assignment.full ? 20 : 2;
  // With fewer cases than a story has calls, the failing calls are evenly spread over the story.
  const std::int64_t floor = assignment.cases > 0 ? std::min(assignment.cases, kCallsOfAStory)
                                                  : kCallsOfAStory * stories;
  const int stride = assignment.cases > 0 ? static_cast<int>(kCallsOfAStory / floor) : 1;
  std::int64_t struck = 0;
  int first = 0;
  std::uint64_t seed = 1000 * assignment.seed;
  for (std::int64_t n = 0; n < stories; ++n, ++seed) {
    seed = Story::next_with_two_checkpoints(seed, kActionsBefore);
    for (const Action action : kActions)
      for (const int error : kErrors)
        for (const bool lasts : {false, true}) {
          Story::Attempt attempt;
          int call = first;
          do {
            Story story(seed, kActionsBefore, {.looks = false});
            attempt = story.attempt(action, {error, call, lasts});
            struck += attempt.struck ? 1 : 0;
            if (!attempt.wrong.empty())
              findings.violation(fmt::format("story {}, {}, call {}{}, {}: {}", seed, name_of(action), call,
                                             lasts ? " and all after it" : "",
                                             error == 0 ? "half" : io::error_text(error), attempt.wrong));
            call += stride;
          } while (attempt.reached);
          first = (first + 1) % stride;
        }
  }
  findings.count("stories of a run", stories);
  findings.count("kinds of failure, each once and from then on", static_cast<std::int64_t>(std::size(kErrors)));
  findings.count_at_least("calls that failed: open, save, save again, roll back, load, resume", struck, floor);
}

}  // namespace binade::crash
