#include <fmt/core.h>

#include <cstdio>
#include <functional>
#include <unordered_set>

#include "binade/core/crc32c.h"
#include "tests/crash/experiments.h"
#include "tests/crash/power_loss.h"
#include "tests/crash/story.h"

namespace binade::crash {

namespace {

constexpr int kActions = 14;
constexpr std::size_t kStatesPerInstant = 96, kStatesForABug = 24;

/// Returns a hash of the content of a disk.
std::uint64_t fingerprint(const DiskImage& image) {
  std::uint64_t sum = 0;
  const auto mix = [&](std::uint64_t x) { sum = (sum ^ x) * 0x9e3779b97f4a7c15u, sum ^= sum >> 29; };
  for (std::size_t i = 0; i < image.size(); ++i) {
    mix(i);
    mix(crc32c(image[i].bytes));
    mix(image[i].bytes.size());
    for (const auto& [name, node] : image[i].entries) {
      mix(crc32c(name.data(), name.size()));
      mix(static_cast<std::uint64_t>(node));
    }
  }
  return sum;
}

struct Counts {
  std::int64_t states = 0, while_recovering = 0;
};

/// Cuts the power a second time, at each instant while the run recovers from the first cut.
std::int64_t cut_the_recovery(const Story& story, const DiskImage& left, const Promise& promise, Draws& draws,
                              const std::function<void(const std::string&)>& violation) {
  MemoryDisk disk(left);
  story.recover(disk);
  std::int64_t states = 0;
  for (std::size_t instant = 0; instant <= disk.now(); ++instant)
    PowerCut(disk, instant).each(8, draws, [&](const DiskImage& again) {
      ++states;
      if (std::string wrong = story.judge(again, promise); !wrong.empty())
        violation(fmt::format("and again after event {} of the recovery: {}", instant, wrong));
    });
  return states;
}

/// Cuts the power at every instant of a story, until `wanted` states were judged or, with `enough`, a violation was
/// found.
Counts cut_everywhere(const Story& story, std::uint64_t seed, std::int64_t wanted, Findings& findings,
                      bool enough = false) {
  Draws draws(seed);
  Counts counts;
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t instant = 0; instant <= story.disk().now() && counts.states < wanted; ++instant) {
    if (enough && findings.violations() > 0) break;
    const Promise& promise = story.promise_at(instant);
    const auto violation = [&](const std::string& what) {
      findings.violation(
          fmt::format("story {}, power cut after event {} ({}): {}", seed, instant, promise.doing, what));
    };
    seen.clear();  // a state may be correct at one instant and wrong at the next
    PowerCut(story.disk(), instant)
        .each(enough ? kStatesForABug : kStatesPerInstant, draws, [&](const DiskImage& left) {
          if (!seen.insert(fingerprint(left)).second) return;
          ++counts.states;
          if (std::string wrong = story.judge(left, promise, false, counts.states % 16 == 0); !wrong.empty())
            violation(wrong);
          else if (promise.begun && counts.states % 512 == 0)
            counts.while_recovering += cut_the_recovery(story, left, promise, draws, violation);
        });
  }
  return counts;
}

}  // namespace

void power_loss(const Assignment& assignment, Findings& findings) {
  constexpr std::int64_t kSlice = 100'000, kFull = 1'000'000;
  const bool one = assignment.story > 0;
  const std::int64_t floor = assignment.cases > 0 ? assignment.cases : assignment.full || one ? kFull : kSlice;
  std::int64_t states = 0, again = 0, stories = 0, instants = 0;
  for (std::uint64_t seed = one ? assignment.story : 1000 * assignment.seed; states < floor && !(one && stories > 0);
       ++seed, ++stories) {
    const Story story(seed, kActions, {});
    if (!story.trouble().empty()) findings.violation(fmt::format("story {}: {}", seed, story.trouble()));
    const Counts counts = cut_everywhere(story, seed, floor - states, findings);
    states += counts.states;
    again += counts.while_recovering;
    instants += static_cast<std::int64_t>(story.disk().now());
  }
  findings.count("stories of a run: saves, rollbacks, kills, a file that rots", stories);
  findings.count("instants at which the power was cut", instants);
  findings.count("states after a second cut, while the run recovered from the first", again);
  findings.count_at_least("different states of the disk after it, opened and resumed", states, one ? 1 : floor);
}

void seeded_bugs(const Assignment& assignment, Findings& findings) {
  constexpr std::uint64_t kStories = 40;
  const std::uint64_t first = 1000 * assignment.seed;
  std::set<std::string> kinds;
  for (std::uint64_t seed = first; seed < first + kStories; ++seed) {
    const Story story(seed, kActions, {});
    kinds.insert(story.kinds().begin(), story.kinds().end());
  }
  std::int64_t caught = 0;
  for (const std::string& kind : kinds) {
    Findings found;
    std::uint64_t seed = first;
    for (; seed < first + kStories && found.violations() == 0; ++seed) {
      try {
        const Story story(seed, kActions, {.forgotten = kind});
        if (!story.trouble().empty()) found.violation(story.trouble());
        cut_everywhere(story, seed, 20'000, found, true);
      } catch (const std::exception& error) {
        found.violation(error.what());  // Binade's code itself detected the bug
      }
    }
    std::printf("  %-7s after %2d stories: %s\n", found.violations() > 0 ? "caught" : "MISSED",
                static_cast<int>(seed - first), kind.c_str());
    std::fflush(stdout);
    if (found.violations() > 0)
      ++caught;
    else
      findings.violation(fmt::format("left out in {} stories without being noticed: {}", kStories, kind));
  }
  findings.count("calls of the protocol left out, one kind at a time", static_cast<std::int64_t>(kinds.size()));
  findings.count_at_least("of them caught", caught, static_cast<std::int64_t>(kinds.size()));
  seeded_training_bugs(assignment.seed, findings);
}

}  // namespace binade::crash
