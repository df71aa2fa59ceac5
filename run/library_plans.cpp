#include "binade/run/library_plans.h"

#include <fmt/format.h>

#include <set>

#include "binade/amp/text.h"
#include "binade/core/gpus.h"
#include "binade/io/checkpoint/sections.h"

namespace binade::amp {
namespace {

const io::CheckpointSection kSection = "env";
constexpr const char* kPlans = "env/plans";

bool on_gpu() { return !gpus::versions().empty(); }

}  // namespace

std::string LibraryPlans::put(StateDict& state) {
  std::string plans = on_gpu() ? gpus::plans() : std::string();
  if (!plans.empty()) state.put(kPlans, plans);
  return plans;
}

std::string LibraryPlans::restore(const StateDict& state) {
  if (!state.contains(kPlans)) return {};
  const std::string& then = state.text(kPlans);
  if (!on_gpu())
    return "the checkpoint was made on a GPU, and this run uses the CPU: its bits may differ from those of an "
           "uninterrupted run";
  const int taken = gpus::use_plans(then);
  const std::vector<std::string> now = split_lines(gpus::plans());
  const std::set<std::string> loaded(now.begin(), now.end());
  const std::string* first = nullptr;
  std::size_t missing = 0;
  const std::vector<std::string> lines = split_lines(then);
  for (const std::string& line : lines)
    if (!loaded.contains(line) && missing++ == 0) first = &line;
  if (first == nullptr) return {};
  return fmt::format(
      "some library plans of the checkpoint do not fit this GPU and its libraries: {} were loaded, {} of {} lines were "
      "not, the first of them \"{:.120}\"; these plans are chosen again, and bits may differ from those of an "
      "uninterrupted run",
      taken, missing, lines.size(), *first);
}

void LibraryPlans::write(const io::RunFolder& folder, const std::string& text) {
  if (text == written_) return;
  folder.write_text("plans.txt", text);
  written_ = text;
}

std::vector<std::string> LibraryPlans::unreported_notes() {
  if (!on_gpu()) return {};
  const std::string notes = gpus::notes();
  std::vector<std::string> lines = split_lines(notes.substr(std::min(reported_, notes.size())));
  for (std::string& line : lines) line = "cuda: " + line;
  reported_ = notes.size();
  return lines;
}

}  // namespace binade::amp
