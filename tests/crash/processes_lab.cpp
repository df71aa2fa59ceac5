// Experiments with real processes: kills by SIGKILL at any instant, and stops by SIGTERM.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "binade/core/error.h"
#include "binade/io/checkpoint/store.h"
#include "tests/crash/experiments.h"
#include "tests/crash/trainee.h"

namespace binade::crash {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the log and the last checkpoint of a finished run.
std::string outcome_of(const Training& t) {
  return bytes_of(t.folder + "/metrics.jsonl") +
         bytes_of(t.folder + "/checkpoints/" + io::checkpoint_file_name(t.steps));
}

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() { check<StorageError>(::pipe2(ends, O_CLOEXEC) == 0, "no pipe"); }
  ~Pipe() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  void close_writer() { ::close(std::exchange(ends[1], -1)); }
};

int wait_for(int child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Checks that the newest commit that the killed process acknowledged, or a newer one, is there and complete. Returns
/// the violation, or "".
std::string after_a_kill(const Training& t, std::int64_t acknowledged) {
  std::string warning;
  try {
    const std::int64_t newest = io::find_newest_checkpoint(t.folder + "/checkpoints", [&](const std::string& w) {
                                  warning = w;
                                }).step;
    if (!warning.empty()) return warning;
    if (newest < acknowledged) return fmt::format("step {} was committed, the newest is {}", acknowledged, newest);
  } catch (const NoCheckpointError& error) {
    if (acknowledged > 0) return error.what();
  }
  return "";
}

struct Kills {
  std::int64_t struck = 0, chains = 0, longest = 0;
};

/// Kills and resumes a run at most 20 times, then lets it end and compares its outcome with `control`.
void chain_of_kills(Training training, const std::string& control, Draws& draws, int microseconds, Kills& kills,
                    Findings& findings, const std::string& what) {
  fs::remove_all(training.folder);
  std::int64_t acknowledged = 0, links = 0;
  bool ended = false;
  while (!ended) {
    const bool by_chance = training.kill_before < 0 && training.kill_after < 0;
    const bool excluded = links == 20;
    Training now = training;
    if (excluded || (!by_chance && links > 0)) now.kill_before = now.kill_after = -1;
    Pipe acks;
    now.acknowledge = acks.ends[1];
    const int child = start_training(now);
    acks.close_writer();
    if (by_chance && !excluded) {
      ::usleep(static_cast<useconds_t>(draws.below(static_cast<std::size_t>(microseconds))));
      ::kill(child, SIGKILL);
    }
    const int status = wait_for(child);
    for (std::int64_t step = 0; ::read(acks.ends[0], &step, sizeof(step)) == sizeof(step);)
      acknowledged = std::max(acknowledged, step);
    ended = WIFEXITED(status);
    if (ended && WEXITSTATUS(status) != 0)
      return findings.violation(fmt::format("{}: resuming ended with exit code {}", what, WEXITSTATUS(status)));
    if (!ended) ++kills.struck, ++links;
    if (std::string wrong = after_a_kill(training, acknowledged); !wrong.empty())
      return findings.violation(fmt::format("{}, kill {}: {}", what, links, wrong));
  }
  ++kills.chains;
  kills.longest = std::max(kills.longest, links);
  if (outcome_of(training) != control) findings.violation(fmt::format("{}: other bits than never killed", what));
}

/// Trains without a kill and returns the duration in microseconds.
int measure(const Training& training) {
  const auto begin = Clock::now();
  check<StorageError>(wait_for(start_training(training)) == 0, "the run that is never killed did not end well");
  return static_cast<int>(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
}

}  // namespace

void kills(const Assignment& assignment, Findings& findings) {
  const std::int64_t floor = assignment.cases > 0 ? assignment.cases : assignment.full ? 20'000 : 2'000;
  const Scratch scratch;
  Kills around, random;
  for (std::int64_t every = 1; every <= 3; ++every) {
    Training training{.folder = scratch / "control", .steps = 6, .checkpoint_every = every};
    fs::remove_all(training.folder);
    measure(training);
    const std::string control = outcome_of(training);
    training.folder = scratch / "run";
    Draws draws(assignment.seed);
    // Kills before and after every call that changes the disk.
    for (int call = 0;; ++call) {
      const std::int64_t before = around.struck;
      for (int Training::*where : {&Training::kill_before, &Training::kill_after}) {
        training.kill_before = training.kill_after = -1;
        training.*where = call;
        chain_of_kills(training, control, draws, 0, around, findings, fmt::format("every {}, call {}", every, call));
      }
      if (around.struck == before) break;
    }
  }
  Draws draws(assignment.seed);
  while (random.struck < floor && findings.violations() < 20) {
    const auto every = static_cast<std::int64_t>(1 + random.chains % 3);
    Training training{.folder = scratch / "control", .steps = 40, .checkpoint_every = every};
    fs::remove_all(training.folder);
    const int whole = measure(training);
    const std::string control = outcome_of(training);
    training.folder = scratch / "run";
    for (int i = 0; i < 8 && random.struck < floor; ++i)
      chain_of_kills(training, control, draws, whole / 4, random, findings,
                     fmt::format("every {}, chain {}", every, random.chains));
  }
  findings.count_at_least("kills just before or just after a call that changes the disk", around.struck, 200);
  findings.count("chains of kills, each resumed to its end and compared bit for bit", random.chains);
  findings.count("kills in the longest chain", random.longest);
  findings.count_at_least("kills at random instants", random.struck, floor);
}

void seeded_training_bugs(std::uint64_t seed, Findings& findings) {
  constexpr int kChains = 40;
  constexpr std::pair<SeededBug, const char*> kBugs[] = {
      {SeededBug::kNone, "the truth"},
      {SeededBug::kAcknowledgesTooEarly, "a commit acknowledged when its file is begun"},
      {SeededBug::kForgetsTheNewest, "a resume from the checkpoint before the newest"},
      {SeededBug::kSwapsABatch, "another batch after a resume"}};
  const Scratch scratch;
  Training training{.folder = scratch / "control", .steps = 20, .checkpoint_every = 1};
  const int whole = measure(training);
  const std::string control = outcome_of(training);
  training.folder = scratch / "run";
  std::int64_t caught = 0;
  for (const auto& [bug, what] : kBugs) {
    Draws draws(seed);
    Findings found;
    Kills kills;
    training.bug = bug;
    const int chains = bug == SeededBug::kNone ? 3 : kChains;
    while (kills.chains < chains && found.violations() == 0) {
      training.kill_before = kills.chains % 2 == 0
                                 ? -1
                                 : static_cast<int>(kills.chains);  // alternately at a random time and before a call
      chain_of_kills(training, control, draws, whole / 2, kills, found, what);
    }
    const bool noticed = found.violations() > 0;
    std::printf("  %-7s after %2d chains of kills: %s\n",
                noticed                   ? "caught"
                : bug == SeededBug::kNone ? "passed"
                                          : "MISSED",
                static_cast<int>(kills.chains), what);
    if (noticed != (bug != SeededBug::kNone))
      findings.violation(fmt::format("a training program that tells {}: {}", what, noticed ? "accused" : "believed"));
    if (noticed) ++caught;
  }
  findings.count_at_least("lies of a training program about its checkpoints, caught by kills", caught,
                          std::size(kBugs) - 1);
}

void starve_programs(std::uint64_t seed, std::int64_t runs, Findings& findings) {
  const Scratch scratch;
  Training training{.folder = scratch / "control", .steps = 6, .checkpoint_every = 1};
  measure(training);
  const std::string control = outcome_of(training);
  training.folder = scratch / "run";
  Draws draws(seed);
  std::int64_t starved = 0, resumed = 0;
  while (starved < runs && findings.violations() < 20) {
    const std::size_t most = std::size_t{1}
                             << (4 + draws.below(14));  // log-uniform, so that many failures strike during start-up
    const Shortage shortage{static_cast<int>(draws.below(most)), draws.one_in(2)};
    const std::string what = fmt::format("a training program, allocation {}{}", shortage.call,
                                         shortage.lasts ? " and all after it" : "");
    fs::remove_all(training.folder);
    Pipe acks;
    Training now = training;
    now.shortage = shortage;
    now.acknowledge = acks.ends[1];
    const int child = start_training(now);
    acks.close_writer();
    const int status = wait_for(child);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != 0 && code != OutOfMemoryError("").exit_code())
      findings.violation(fmt::format("{}: it ended with exit code {}, signal {}", what, code,
                                     WIFSIGNALED(status) ? WTERMSIG(status) : 0));
    std::int64_t acknowledged = 0;
    for (std::int64_t step = 0; ::read(acks.ends[0], &step, sizeof(step)) == sizeof(step);)
      acknowledged = std::max(acknowledged, step);
    if (std::string wrong = after_a_kill(training, acknowledged); !wrong.empty())
      findings.violation(what + ": " + wrong);
    if (code != 0) {
      ++starved;
      resumed += acknowledged > 0 ? 1 : 0;
      if (const int end = wait_for(start_training(training)); end != 0)
        findings.violation(fmt::format("{}: resuming ended with exit code {}", what, WEXITSTATUS(end)));
    }
    if (outcome_of(training) != control) findings.violation(what + ": other bits than with enough memory");
  }
  findings.count("of the programs: resumed from a checkpoint to the same bits", resumed);
  findings.count_at_least("training programs that ended for want of memory, with exit code 50", starved, runs);
}

void stops(const Assignment& assignment, Findings& findings) {
  const std::int64_t floor = assignment.cases > 0 ? assignment.cases : assignment.full ? 5'000 : 100;
  const Scratch scratch;
  const Training training{.folder = scratch / "run", .steps = 1'000'000, .checkpoint_every = 3};
  Draws draws(assignment.seed);
  std::int64_t committed = 0, too_early = 0, twice = 0;
  double slowest = 0;
  while (committed < floor && findings.violations() < 20) {
    if (draws.one_in(20)) fs::remove_all(training.folder);
    Pipe acks, started;
    Training now = training;
    now.acknowledge = acks.ends[1];
    now.started = started.ends[1];
    ::fcntl(acks.ends[0], F_SETFL, O_NONBLOCK);
    const int child = start_training(now);
    acks.close_writer();
    started.close_writer();
    const bool early = draws.one_in(8);  // true: SIGTERM during the start or the resume
    const bool second = !early && draws.one_in(8);
    char byte = 0;
    if (!early) [[maybe_unused]]
      const ssize_t n = ::read(started.ends[0], &byte, 1);
    ::usleep(static_cast<useconds_t>(draws.below(early ? 3'000 : 8'000)));
    const auto begin = Clock::now();
    ::kill(child, SIGTERM);
    if (second) {
      ::usleep(static_cast<useconds_t>(draws.below(500)));
      ::kill(child, SIGTERM);
    }
    const int status = wait_for(child);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::int64_t acknowledged = 0;
    for (std::int64_t step = 0; ::read(acks.ends[0], &step, sizeof(step)) == sizeof(step);)
      acknowledged = std::max(acknowledged, step);
    slowest = std::max(slowest, seconds);
    if (seconds > 2.5) findings.violation(fmt::format("it took {} s to stop", seconds));
    if (std::string wrong = after_a_kill(training, acknowledged); !wrong.empty()) findings.violation(wrong);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (early && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
      ++too_early;  // the run was not open yet, so there was nothing to commit
    else if (second && (code == 11 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)))
      ++twice;
    else if (code == 10)
      ++committed;
    else
      findings.violation(
          fmt::format("it ended with exit code {}, signal {}", code, WIFSIGNALED(status) ? WTERMSIG(status) : 0));
  }
  findings.count("stopped before the run was open", too_early);
  findings.count("stopped at once by a second signal", twice);
  findings.count("milliseconds from the signal to the end, at most", static_cast<std::int64_t>(1e3 * slowest));
  findings.count_at_least("stopped by SIGTERM with the step committed and exit code 10", committed, floor);
}

}  // namespace binade::crash
