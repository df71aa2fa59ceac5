#include "binade/run/library_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "binade/core/gpus.h"
#include "binade/io/checkpoint/sections.h"

namespace binade::amp {
namespace {

const io::CheckpointSection kSection = "env";
constexpr const char* kPlans = "env/plans";

bool on_gpu() { return !gpus::versions().empty(); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

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
    return "the checkpoint was made on a GPU, this run computes on the CPU: the same bits as an uninterrupted run are "
           "not promised any more";
  const int taken = gpus::use_plans(then);
  const std::vector<std::string> now = lines_of(gpus::plans());
  const std::set<std::string> known(now.begin(), now.end());
  const std::string* first = nullptr;
  std::size_t missing = 0;
  const std::vector<std::string> lines = lines_of(then);
  for (const std::string& line : lines)
    if (!known.contains(line) && missing++ == 0) first = &line;
  if (first == nullptr) return {};
  return fmt::format(
      "the checkpoint holds choices of libraries that do not fit this GPU and its libraries: {} were taken over, {} of "
      "{} lines were not, the first of them \"{:.120}\"; they are chosen anew, and the same bits as an uninterrupted "
      "run are not promised any more",
      taken, missing, lines.size(), *first);
}

void LibraryPlans::write(const io::RunFolder& folder, const std::string& text) {
  if (text == written_) return;
  folder.write_text("plans.txt", text);
  written_ = text;
}

std::vector<std::string> LibraryPlans::untold_notes() {
  if (!on_gpu()) return {};
  const std::string notes = gpus::notes();
  std::vector<std::string> lines = lines_of(notes.substr(std::min(told_, notes.size())));
  for (std::string& line : lines) line = "cuda: " + line;
  told_ = notes.size();
  return lines;
}

}  // namespace binade::amp
