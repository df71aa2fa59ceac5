// A story goes on while calls of the system fail.
#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "tests/crash/power_loss.h"
#include "tests/crash/story.h"

namespace binade::crash {

namespace {

/// What a program may end with when an action fails.
bool is_right_code(Story::Action action, int code) {
  switch (action) {
    case Story::Action::kOpen:
    case Story::Action::kSave:
    case Story::Action::kReplace:
    case Story::Action::kRollBack: return code == 24;
    case Story::Action::kLoad: return code == 22;
    case Story::Action::kResume: return code == 22 || code == 24;
  }
  return false;
}

}  // namespace

void Story::carry_out(Action action) {
  switch (action) {
    case Action::kOpen: open(); break;
    case Action::kSave: save(); break;
    case Action::kReplace: save_another_of_the_same_step(); break;
    case Action::kRollBack: roll_back(); break;
    case Action::kLoad: {
      const auto version = static_cast<int>(store_->load_newest().state.integer("progress/version"));
      check<NumericError>(std::ranges::count(promises_.back().kept, version) > 0, "version {} was loaded", version);
      break;
    }
    case Action::kResume: {
      folder_.emplace(io::RunFolder::resume("/runs/a", stage_));
      folder_->read_config();
      break;
    }
  }
}

Story::Attempt Story::attempt(Action action, const Fault& fault) {
  if (action == Action::kOpen || action == Action::kResume) store_.reset();
  if (action == Action::kResume) folder_.reset();
  warnings_.clear();
  faulty_.plan(fault);
  std::string wrong = judge_ending(action, fault);
  faulty_.mend();
  stage_.set_manifest_full(false);
  if (wrong.empty()) wrong = judge_what_is_left(action);
  return {faulty_.reached(), faulty_.fired(), wrong};
}

std::string Story::judge_ending(Action action, const Fault& fault) {
  try {
    carry_out(action);
    return "";
  } catch (const Error& error) {
    const std::string words = error.what();
    if (!is_right_code(action, error.exit_code()))
      return fmt::format("it ended with exit code {}: {}", error.exit_code(), words);
    if (words.find("/runs/a") == std::string::npos) return "the error does not name the folder: " + words;
    if (action != Action::kLoad && words.find(io::error_text(fault.error)) == std::string::npos)
      return "the error does not name its cause: " + words;
    return fault.error == 0 ? "a read or write that did half of what was asked made it fail" : "";
  } catch (const std::exception& error) {
    return fmt::format("it ended with an error that is not Binade's: {}", error.what());
  }
}

std::string Story::judge_what_is_left(Action action) {
  const Promise& promised = promises_.back();
  for (const auto& [name, node] :
       disk_.live()[static_cast<std::size_t>(node_at(disk_.live(), "/runs/a/checkpoints"))].entries)
    if (faulty_.doubtful().contains(node) && !name.starts_with("."))
      return name + " is a file that could not be synced";
  if (std::string wrong = judge(disk_.live(), promised); !wrong.empty()) return wrong;
  const PowerCut cut(disk_, disk_.now());
  if (std::string wrong = judge(cut.least(), promised); !wrong.empty()) return "after a power cut: " + wrong;
  if (action == Action::kResume || !store_) return "";
  // The process is alive: when the trouble has passed it goes on.
  const int more = make_version(versions_.back().step + 1000);
  promise_save(more);
  const Version& v = versions_[static_cast<std::size_t>(more)];
  try {
    save_version(more);
  } catch (const Error& error) {
    return fmt::format("the next save failed, with the trouble gone: {}", error.what());
  }
  Promise next = promises_.back();
  next.loadable = {more};
  promise(next);
  return v.step == store_->load_newest().step ? judge(disk_.live(), next) : "the next save was not the newest";
}

}  // namespace binade::crash
