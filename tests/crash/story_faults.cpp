// Actions of a story while system calls or allocations fail.
#include <fmt/core.h>

#include <algorithm>

#include "binade/core/error.h"
#include "tests/crash/power_loss.h"
#include "tests/crash/story.h"

namespace binade::crash {

namespace {

/// Returns true if a program may end with this exit code when the action fails.
bool is_right_code(Story::Action action, int code) {
  switch (action) {
    case Story::Action::kOpen:
    case Story::Action::kSave:
    case Story::Action::kReplace:
    case Story::Action::kSaveBehind:
    case Story::Action::kRollBack: return code == 24;
    case Story::Action::kLoad: return code == 22;
    case Story::Action::kResume: return code == 22 || code == 24;
  }
  return false;
}

}  // namespace

const char* name_of(Story::Action action) {
  constexpr const char* kNames[] = {"open", "save",   "save another state of the step", "roll back",
                                    "load", "resume", "save in the background"};
  return kNames[static_cast<std::size_t>(action)];
}

std::uint64_t Story::next_with_two_checkpoints(std::uint64_t seed, int actions) {
  while (true) {
    const Story story(seed, actions, {});
    if (story.trouble().empty() && story.promise_at(story.disk().now()).kept.size() >= 2) return seed;
    ++seed;
  }
}

void Story::carry_out(Action action) {
  switch (action) {
    case Action::kOpen: open(); break;
    case Action::kSaveBehind:
    case Action::kSave: save(); break;
    case Action::kReplace: save_another_of_the_same_step(); break;
    case Action::kRollBack: roll_back(); break;
    case Action::kLoad: {
      const io::LoadedCheckpoint newest = ask([&] { return store_->load_newest(); });
      const auto version = static_cast<int>(newest.state.integer("progress/version"));
      check<NumericError>(std::ranges::count(promises_.back().kept, version) > 0, "version {} was loaded", version);
      break;
    }
    case Action::kResume: {
      ask([&] {
        folder_.emplace(io::RunFolder::resume("/runs/a", outside_));
        folder_->read_config();
      });
      break;
    }
  }
}

void Story::prepare(Action action) {
  if (action == Action::kOpen || action == Action::kResume) store_.reset();
  if (action == Action::kResume) folder_.reset();
  behind_ = action == Action::kSaveBehind;
  warnings_.clear();
}

Story::Attempt Story::attempt(Action action, const Fault& fault) {
  prepare(action);
  faulty_.plan(fault);
  std::string wrong = judge_ending(action, fault);
  faulty_.mend();
  stage_.set_manifest_full(false);
  if (wrong.empty()) wrong = judge_what_is_left(action);
  return {faulty_.reached(), faulty_.fired(), wrong};
}

Story::Attempt Story::attempt(Action action, const Shortage& shortage) {
  prepare(action);
  shortage_ = shortage;
  std::string wrong = judge_memory_ending(action);
  shortage_.reset();
  stage_.set_manifest_full(false);
  const bool struck = ScarceMemory::struck();
  if (wrong.empty()) wrong = judge_what_is_left(action);
  return {struck, struck, wrong};
}

std::string Story::judge_memory_ending(Action action) {
  try {
    carry_out(action);
    return "";
  } catch (const Error& error) {
    return error.exit_code() == 50 ? ""
                                   : fmt::format("it ended with exit code {}: {}", error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return "";  // amp::run_command_line turns it into exit code 50
  } catch (const std::exception& error) {
    return fmt::format("it ended with an error that is not Binade's: {}", error.what());
  }
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
  if (std::string wrong = judge_the_disk(action); !wrong.empty()) return wrong;
  store_.reset();
  folder_.reset();
  const int open = disk_.open_descriptors();
  return open == 0 ? "" : fmt::format("{} descriptors were left open", open);
}

std::string Story::judge_the_disk(Action action) {
  const Promise& promised = promises_.back();
  for (const auto& [name, node] :
       disk_.live()[static_cast<std::size_t>(node_at(disk_.live(), "/runs/a/checkpoints"))].entries)
    if (faulty_.doubtful().contains(node) && !name.starts_with("."))
      return name + " is a file that could not be synced";
  if (std::string wrong = judge(disk_.live(), promised); !wrong.empty()) return wrong;
  const PowerCut cut(disk_, disk_.now());
  if (std::string wrong = judge(cut.least(), promised); !wrong.empty()) return "after a power cut: " + wrong;
  if (action == Action::kResume || !store_) return "";
  // The process continues after the fault. Checkpoints that the action did not replace after all are in the ring again.
  Promise now = promised;
  const std::vector<int> listed = versions_of(store_->entries());
  for (const int v : listed)
    if (std::erase(now.aside, v) > 0) now.kept.push_back(v);
  promise(now);
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
