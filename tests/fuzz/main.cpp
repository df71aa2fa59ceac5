// Feeds hostile inputs to the readers of files and judges their answers (docs/hostile-input.md).
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "core/error.h"
#include "tests/fuzz/report.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/watch.h"

namespace binade::fuzz {
namespace {

constexpr const char* kUsage =
    "usage: fuzz [--target NAME] [--seed N] [--count M] [--seconds S] [--floor M] [--reasons K] [--json FILE]\n"
    "       fuzz --target NAME --seed N --input I [--write FILE]\n"
    "       fuzz --list\n\n"
    "  --target   one reader; left out: all of them\n"
    "  --seed     what the inputs are drawn from; 1 when left out\n"
    "  --count    how many inputs, shared out among the readers; 100000 when left out\n"
    "  --seconds  stop after so long, whatever was reached\n"
    "  --floor    fail when fewer inputs were read\n"
    "  --reasons  how many of the commonest refusals to print for each reader\n"
    "  --json     every count, into FILE\n"
    "  --input    read this one input alone and say what happens; --write: its bytes, into FILE\n";

struct Flags {
  std::string target, json, write;
  std::uint64_t seed = 1, count = 100'000, floor = 0, reasons = 0, input = 0;
  double seconds = 0;
  bool one_input = false, list = false, help = false;
};

std::uint64_t number(const std::string& flag, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<ArgumentError>(error == std::errc() && end == text.data() + text.size(), "fuzz: {} wants a number, got '{}'",
                       flag, text);
  return value;
}

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--list" || flag == "--help") {
      (flag == "--list" ? flags.list : flags.help) = true;
      continue;
    }
    check<ArgumentError>(i + 1 < argc, "fuzz: {} wants a value", flag);
    const std::string value = argv[++i];
    if (flag == "--target")
      flags.target = value;
    else if (flag == "--json")
      flags.json = value;
    else if (flag == "--write")
      flags.write = value;
    else if (flag == "--seed")
      flags.seed = number(flag, value);
    else if (flag == "--count")
      flags.count = number(flag, value);
    else if (flag == "--floor")
      flags.floor = number(flag, value);
    else if (flag == "--reasons")
      flags.reasons = number(flag, value);
    else if (flag == "--seconds")
      flags.seconds = static_cast<double>(number(flag, value));
    else if (flag == "--input") {
      flags.input = number(flag, value);
      flags.one_input = true;
    } else
      throw ArgumentError(fmt::format("fuzz: unknown flag {}; --help lists them", flag));
  }
  return flags;
}

/// Of this process: what other programs take is not the reader's.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What the process dies of, if it does.
char being_read[160] = "between inputs";

std::string replay_line(const Tally& t, std::uint64_t index) {
  return fmt::format("replay: fuzz --target {} --seed {} --input {}", t.target, t.seed, index);
}

void fail(Tally& t, std::uint64_t index, const std::string& what) {
  if (t.failures.size() < 20)
    t.failures.push_back(fmt::format("FAILED {}: {}; {}", t.target, what, replay_line(t, index)));
}

/// Reads input `index`; what it came to goes into `t`. Returns the reader's words.
std::string judge(const Target& target, std::uint64_t index, Tally& t) {
  Draws draws(t.seed, index);
  const std::string input = target.make(draws);
  std::string words = "accepted";
  std::snprintf(being_read, sizeof being_read, "died of target %s, seed %llu, input %llu", t.target.c_str(),
                static_cast<unsigned long long>(t.seed), static_cast<unsigned long long>(index));
  const MemoryWatch memory;
  const double began = processor_seconds();
  try {
    const Answer answer = target.read(input);
    if (answer == Answer::kAccepted) {
      ++t.accepted;
    } else {
      words = "refused without a word";
      ++t.refusals[words];
    }
  } catch (const std::exception& error) {
    words = error.what();
    if (dynamic_cast<const Unsound*>(&error) != nullptr)
      fail(t, index, "accepted, and wrong: " + words);
    else if (!target.documented(error))
      fail(t, index, "an error of another type: " + words);
    else
      ++t.refusals[reason_of(words)];
  }
  const double seconds = processor_seconds() - began;
  const std::size_t bytes = memory.peak();
  ++t.executions;
  t.took(seconds, index);
  if (seconds > Tally::kSlow) fail(t, index, fmt::format("took {:.1f} s", seconds));
  if (bytes > input.size() + Tally::kMemory)
    fail(t, index, fmt::format("took {} bytes of memory for {} bytes", bytes, input.size()));
  if (bytes > t.most_memory) {
    t.most_memory = bytes;
    t.greediest_input = index;
  }
  return words;
}

/// Shares of all inputs: the checkpoint's validator is the widest, and files cost system calls.
std::uint64_t share(const std::string& target, std::uint64_t count) {
  if (target == "checkpoint") return count * 3 / 10;
  if (target == "journal") return count / 100;
  return count * 69 / 900 + 1;
}

void run(const Target& target, std::uint64_t count, double until, Tally& t) {
  const double began = now();
  for (std::uint64_t index = 0; index < count; ++index) {
    if (index % 64 == 0) {
      alive();
      if (until > 0 && now() > until) break;
    }
    judge(target, index, t);
  }
  t.seconds = now() - began;
}

int one_input(const Target& target, const Flags& flags) {
  if (!flags.write.empty()) {
    Draws draws(flags.seed, flags.input);
    std::ofstream(flags.write, std::ios::binary) << target.make(draws);
  }
  Tally t{.target = target.name, .seed = flags.seed};
  const std::string words = judge(target, flags.input, t);
  std::printf("%s\n%.3f ms, %zu bytes of memory\n", words.c_str(), t.slowest * 1e3, t.most_memory);
  for (const std::string& failure : t.failures) std::printf("%s\n", failure.c_str());
  return t.failures.empty() ? 0 : 1;
}

int run(const Flags& flags) {
  if (flags.help) return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
  std::vector<Target> targets;
  for (const Target& t : all_targets())
    if (flags.target.empty() || flags.target == t.name) targets.push_back(t);
  check<ArgumentError>(!targets.empty(), "fuzz: there is no target '{}'; --list names them", flags.target);
  if (flags.list) {
    for (const Target& t : targets) std::printf("%-12s %s\n", t.name.c_str(), t.what.c_str());
    return 0;
  }
  watch_for_death([] { return static_cast<const char*>(being_read); }, 300);
  if (flags.one_input) {
    check<ArgumentError>(targets.size() == 1, "fuzz: --input wants a --target");
    return one_input(targets[0], flags);
  }
  const double began = now();
  std::vector<Tally> tallies;
  std::uint64_t executions = 0, failures = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Tally& t = tallies.emplace_back(Tally{.target = targets[i].name, .seed = flags.seed});
    // What time is left is shared by the readers that are left, the checkpoint's counting fourfold.
    const auto left = static_cast<double>(targets.size() - i) + (i == 0 ? 3 : 0);
    const double until = flags.seconds > 0 ? now() + (began + flags.seconds - now()) * (i == 0 ? 4 : 1) / left : 0;
    run(targets[i], targets.size() == 1 ? flags.count : share(t.target, flags.count), until, t);
    executions += static_cast<std::uint64_t>(t.executions);
    failures += t.failures.size();
  }
  std::fputs(to_text(tallies, flags.reasons).c_str(), stdout);
  if (!flags.json.empty()) {
    std::ofstream file(flags.json);
    file << to_json(tallies);
    check<StorageError>(file.good(), "fuzz: cannot write {}", flags.json);
  }
  if (executions < flags.floor)
    std::printf("FAILED: %llu inputs are fewer than the floor of %llu\n", static_cast<unsigned long long>(executions),
                static_cast<unsigned long long>(flags.floor));
  return failures > 0 || executions < flags.floor ? 1 : 0;
}

}  // namespace
}  // namespace binade::fuzz

int main(int argc, char** argv) {
  try {
    return binade::fuzz::run(binade::fuzz::parse(argc, argv));
  } catch (const binade::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
