#include "binade/io/checkpoint/find.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ranges>
#include <utility>

#include "binade/core/error.h"
#include "binade/io/terminal/console.h"

namespace binade::io {

Obstacle try_load(FileOps& ops, int folder, const std::string& name, std::uint64_t limit, LoadedCheckpoint& loaded,
                  std::string& why) {
  try {
    const CheckpointImage image = read_checkpoint_image(ops, folder, name, limit, name);
    DecodedCheckpoint decoded = decode_checkpoint(image.bytes(), "checkpoint " + name);
    check_name_fits(name, decoded.info);
    loaded.state = std::move(decoded.state);
    loaded.info = std::move(decoded.info);
    loaded.file = name;
    loaded.step = *step_of_file_name(name);
    return Obstacle::kNone;
  } catch (const UnreadableCheckpointError& e) {
    why = e.what();
    return Obstacle::kUnreadable;
  } catch (const MisnamedCheckpointError& e) {
    why = e.what();
    return Obstacle::kMisnamed;
  } catch (const NoCheckpointError& e) {
    why = e.what();
    return Obstacle::kCorrupt;
  }
}

std::vector<std::string> newest_first(FileOps& ops, int folder, const std::string& path) {
  std::vector<std::string> names;
  const int error = ops.list(folder, names);
  check<NoCheckpointError>(error == 0, "checkpoints in {}: {}", path, error_text(error));
  std::erase_if(names, [](const std::string& n) { return !step_of_file_name(n); });
  std::reverse(names.begin(), names.end());  // list() sorts by name, and steps of 12 digits sort as numbers do
  return names;
}

void throw_no_checkpoint(const std::string& path, std::size_t tried) {
  throw NoCheckpointError(tried == 0
                              ? fmt::format("checkpoints in {}: there is none yet; if its run has ended, start it "
                                            "again with --resume auto (TrainingRun::resume_if_possible())",
                                            path)
                              : fmt::format("checkpoints in {}: none of {} could be verified", path, tried));
}

void warn_on_stderr(const std::string& line) { say("binade: " + line); }

void check_name_fits(const std::string& name, const CheckpointInfo& info) {
  const std::optional<std::int64_t> named = step_of_file_name(name);
  if (named && info.step && *named != *info.step)
    throw MisnamedCheckpointError(
        fmt::format("checkpoint {}: its name says step {}, it holds step {}; {}", name, *named, *info.step,
                    *info.step >= 0 ? "under the name " + checkpoint_file_name(*info.step) + " it can be resumed"
                                    : "no run wrote it"));
}

void warn_about_left_out(const CheckpointInfo& info, const std::string& file, const Warn& warn) {
  for (const std::string& group : info.left_out)
    warn(fmt::format("checkpoint {}: it has format {}.{} and a group /{} that this Binade cannot read; it is ignored",
                     file, info.major, info.minor, group));
}

FileHandle open_checkpoints(const std::string& folder) {
  auto [error, handle] = open_checkpoints(FileOps::real(), folder);
  check<NoCheckpointError>(error == 0, "checkpoints in {}: {}", folder, error_text(error));
  return std::move(handle);
}

ManifestReading read_manifest(const FileHandle& folder) {
  std::vector<std::byte> text;
  if (read_file(FileOps::real(), folder.get(), kManifestName, kManifestLimit, text) != 0) return {.whole = false};
  return manifest_from({reinterpret_cast<const char*>(text.data()), text.size()});
}

namespace {

/// Returns the names of checkpoint files in the order in which they should be tried.
using Listing = std::function<std::vector<std::string>()>;

/// Loads the first intact file of `list`; returns std::nullopt if there is none. Sets `tried` to the number of files.
std::optional<LoadedCheckpoint> first_intact(const FileHandle& folder, const Listing& list, const Warn& warn,
                                             std::size_t& tried) {
  FileOps& ops = FileOps::real();
  // If a listed file has vanished, list again: a writer deletes one only after it has committed another checkpoint.
  for (int round = 0; round < 10; ++round) {
    bool vanished = false;
    const std::vector<std::string> names = list();
    tried = names.size();
    for (const std::string& name : names) {
      LoadedCheckpoint loaded;
      std::string why;
      const Obstacle obstacle = try_load(ops, folder.get(), name, kLargestFile, loaded, why);
      if (obstacle == Obstacle::kNone) {
        warn_about_left_out(loaded.info, loaded.file, warn);
        return loaded;
      }
      FileStatus status;
      if (ops.status_of(folder.get(), name, status) == ENOENT) {
        vanished = true;
        break;
      }
      warn(why + "; trying the next");
    }
    if (!vanished) break;
  }
  return std::nullopt;
}

/// Returns the names of the files with a score, the best first; an empty list if MANIFEST, which holds the scores,
/// cannot be read.
std::vector<std::string> names_best_first(const FileHandle& folder) {
  const Manifest manifest = read_manifest(folder).manifest;
  std::vector<std::string> names;
  for (const std::size_t i : best_first(manifest.entries)) names.push_back(manifest.entries[i].file);
  return names;
}

LoadedCheckpoint load_step(const FileHandle& folder, const std::string& path, std::int64_t step, const Warn& warn) {
  FileOps& ops = FileOps::real();
  const std::string name = checkpoint_file_name(step);
  FileStatus status;
  if (ops.status_of(folder.get(), name, status) == ENOENT) {
    std::string there;
    for (const std::string& other : std::views::reverse(newest_first(ops, folder.get(), path)))
      there += fmt::format("{}{}", there.empty() ? "" : ", ", *step_of_file_name(other));
    throw NoCheckpointError(fmt::format("checkpoints in {}: there is none of step {}; existing steps: {}", path, step,
                                        there.empty() ? "none" : there));
  }
  LoadedCheckpoint loaded;
  std::string why;
  check<NoCheckpointError>(try_load(ops, folder.get(), name, kLargestFile, loaded, why) == Obstacle::kNone, "{}", why);
  warn_about_left_out(loaded.info, loaded.file, warn);
  return loaded;
}

}  // namespace

LoadedCheckpoint find_newest_checkpoint(const std::string& folder, const Warn& warn) {
  return find_checkpoint(folder, {.rule = CheckpointChoice::Rule::kNewest}, warn);
}

std::optional<CheckpointChoice> checkpoint_choice(std::string_view text) {
  using enum CheckpointChoice::Rule;
  if (text == "best") return CheckpointChoice{.rule = kBest};
  if (text == "newest") return CheckpointChoice{.rule = kNewest};
  CheckpointChoice choice{.rule = kStep};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), choice.step);
  const bool step = error == std::errc() && end == text.data() + text.size() && choice.step >= 0;
  return step ? std::optional(choice) : std::nullopt;
}

FoundCheckpoint find_checkpoint(const std::string& folder, const CheckpointChoice& choice, const Warn& warn) {
  using enum CheckpointChoice::Rule;
  const FileHandle handle = open_checkpoints(folder);
  if (choice.rule == kStep) return {load_step(handle, folder, choice.step, warn), "as asked for"};
  std::size_t tried = 0;
  if (choice.rule != kNewest) {
    if (auto best = first_intact(
            handle, [&] { return names_best_first(handle); }, warn, tried))
      return {*std::move(best), fmt::format("the best of {} with a score", tried)};
    check<NoCheckpointError>(choice.rule == kBestOrNewest,
                             "checkpoints in {}: {}, so none is the best; use the newest, or give a step", folder,
                             tried == 0 ? "none has the score of an evaluation"
                                        : fmt::format("none of {} with a score could be verified", tried));
  }
  auto newest = first_intact(
      handle, [&] { return newest_first(FileOps::real(), handle.get(), folder); }, warn, tried);
  if (!newest) throw_no_checkpoint(folder, tried);
  return {*std::move(newest), "the newest"};
}

}  // namespace binade::io
