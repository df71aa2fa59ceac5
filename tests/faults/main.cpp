// Plants faults in small models and judges what the diagnosis says about them.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "tests/faults/table.h"

namespace binade::faults {
namespace {

constexpr const char* kUsage =
    "usage: faults [--seed N] [--cases M] [--family NAME] [--json FILE] [--list]\n\n"
    "  --seed    what cases are drawn from; left out: another one each time, printed\n"
    "  --cases   how many; left out: one of each family\n"
    "  --family  only families whose name holds NAME\n"
    "  --json    every case with its card and what was found, into FILE\n"
    "  --list    print the cases and run none\n";

struct Flags {
  std::uint64_t seed = std::random_device{}();
  std::int64_t cases = 0;  // 0: one of each family
  std::string family, json;
  bool list = false, help = false;
};

template <class T>
T number(const std::string& flag, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<ArgumentError>(error == std::errc() && end == text.data() + text.size(), "faults: {} wants a number, got '{}'",
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
    check<ArgumentError>(i + 1 < argc, "faults: {} wants a value", flag);
    const std::string value = argv[++i];
    if (flag == "--seed")
      flags.seed = number<std::uint64_t>(flag, value);
    else if (flag == "--cases")
      flags.cases = number<std::int64_t>(flag, value);
    else if (flag == "--family")
      flags.family = value;
    else if (flag == "--json")
      flags.json = value;
    else
      throw ArgumentError(fmt::format("faults: unknown flag {}; known: --seed --cases --family --json --list", flag));
  }
  return flags;
}

int run(const Flags& flags) {
  if (flags.help) return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
  const std::vector<Family> families = all_families();
  const auto count = flags.cases > 0 ? flags.cases : static_cast<std::int64_t>(families.size());
  const std::vector<Case> cases = draw_cases(families, flags.seed, count, flags.family);
  std::printf("seed %llu, %zu families, %zu cases\n\n", static_cast<unsigned long long>(flags.seed), families.size(),
              cases.size());
  if (flags.list) {
    for (const Case& c : cases)
      std::printf("%-12s %-42s %s\n", c.family->theme, c.family->name, c.spot.to_string().c_str());
    return 0;
  }
  Controls controls;
  std::vector<Score> scores;
  for (const Case& c : cases) scores.push_back(judge(c, controls));
  std::fputs(text_table(scores).c_str(), stdout);
  if (!flags.json.empty()) {
    std::ofstream file(flags.json);
    file << json_table(scores, flags.seed);
    check<ArgumentError>(file.good(), "faults: cannot write {}", flags.json);
  }
  return 0;
}

}  // namespace
}  // namespace binade::faults

int main(int argc, char** argv) {
  try {
    return binade::faults::run(binade::faults::parse(argc, argv));
  } catch (const binade::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 20;
  }
}
