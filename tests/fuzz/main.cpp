// Runs the readers of files on hostile inputs and judges their answers (docs/hostile-input.md).
#include <CLI/CLI.hpp>
#include <fstream>

#include "binade/core/error.h"
#include "binade/run/command_line.h"
#include "tests/fuzz/campaign.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/watch.h"

namespace binade::fuzz {
namespace {

/// Reads input `index` and records the outcome in `t`. Returns the reader's answer as text.
std::string judge(const Target& target, std::uint64_t seed, std::uint64_t index, Tally& t) {
  Draws draws(seed, index);
  const std::string input = target.make(draws);
  std::string words = "accepted";
  name_input(t.replay, index);
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
    if (is_one_of<WrongResult>(error))
      t.fail(index, "accepted, and wrong: " + words);
    else if (!target.documented(error))
      t.fail(index, "an error of another type: " + words);
    else
      ++t.refusals[reason_of(words)];
  }
  const double seconds = processor_seconds() - began;
  const std::size_t bytes = memory.peak();
  t.record(seconds, bytes, index);
  if (seconds > Tally::kSlow) t.fail(index, fmt::format("took {:.1f} s", seconds));
  if (bytes > input.size() + Tally::kMemory)
    t.fail(index, fmt::format("took {} bytes of memory for {} bytes", bytes, input.size()));
  return words;
}

/// Returns a target's share of `count` inputs. The checkpoint validator gets most of them, because it has the most
/// code. The journal gets the fewest, because each input needs files, and so system calls.
std::uint64_t share(const std::string& target, std::uint64_t count) {
  if (target == "checkpoint") return count * 3 / 10;
  if (target == "journal") return count / 100;
  return count * 69 / 900 + 1;
}

std::vector<Subject> subjects_of(const Campaign& campaign) {
  std::vector<Subject> subjects;
  for (const Target& target : all_targets())
    subjects.push_back(
        {target.name, target.what, share(target.name, campaign.count),
         [&target, seed = campaign.seed](std::uint64_t index, Tally& t) { return judge(target, seed, index, t); }});
  return subjects;
}

void write_input(const Campaign& campaign, const std::string& path) {
  check<ArgumentError>(campaign.input.has_value() && !campaign.only.empty(),
                       "fuzz: --write wants --target and --input");
  for (const Target& target : all_targets()) {
    if (target.name != campaign.only) continue;
    Draws draws(campaign.seed, *campaign.input);
    std::ofstream(path, std::ios::binary) << target.make(draws);
  }
}

}  // namespace
}  // namespace binade::fuzz

int main(int argc, char** argv) {
  using namespace binade;
  CLI::App app("Feeds hostile inputs to the readers of files and judges their answers.", "fuzz");
  fuzz::Campaign campaign{.only_flag = "--target"};
  fuzz::declare(app, campaign);
  std::string write;
  app.add_option("--write", write, "the bytes of --input, into this file");
  return amp::run_command_line(app, argc, argv, [&] {
    const std::vector<fuzz::Subject> subjects = fuzz::chosen(campaign, fuzz::subjects_of(campaign));
    if (!write.empty()) fuzz::write_input(campaign, write);
    return fuzz::run(campaign, subjects);
  });
}
