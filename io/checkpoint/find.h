#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/manifest.h"
#include "binade/io/files/file_ops.h"

namespace binade::io {

inline constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 40;  ///< bytes; larger files are not read

/// Receives one line of text for the user. The default prints it to stderr.
using Warn = std::function<void(const std::string&)>;
/// Prints a line to stderr.
void warn_on_stderr(const std::string& line);
/// Warns about each group that a load left out (CheckpointInfo::left_out).
void warn_about_left_out(const CheckpointInfo& info, const std::string& file, const Warn& warn);

/// Thrown for an intact checkpoint whose file name and content give different steps. It is not resumed, because
/// otherwise a copied file could change the step of a run.
class MisnamedCheckpointError : public NoCheckpointError {
 public:
  using NoCheckpointError::NoCheckpointError;
};
/// Throws MisnamedCheckpointError if the file's `name` and its content give different steps. Accepts a name without a
/// step (not "ckpt-000000000500.h5"), and a file that holds weights alone and thus no step.
void check_name_fits(const std::string& name, const CheckpointInfo& info);

/// A checkpoint that was loaded, with the name of its file.
struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::string file{};
  StateDict state{};
  CheckpointInfo info{};
};

/// Loads the newest intact checkpoint of a folder, and changes no file there, because another process may be writing.
/// Throws the errors of CheckpointStore::load_newest().
LoadedCheckpoint find_newest_checkpoint(const std::string& folder, const Warn& warn = warn_on_stderr);

/// Selects a checkpoint of a run.
struct CheckpointChoice {
  /// How the checkpoint is selected.
  enum class Rule : std::uint8_t {
    kBestOrNewest,  ///< the best, or the newest if none has a score
    kBest,          ///< the checkpoint with the best score
    kNewest,        ///< the newest intact checkpoint
    kStep,          ///< the checkpoint of `step`
  };
  Rule rule = Rule::kBestOrNewest;
  std::int64_t step = 0;
};
/// Parses "best", "newest" or a step ("500"); returns std::nullopt for any other text, which is a file name.
std::optional<CheckpointChoice> checkpoint_choice(std::string_view text);

/// A checkpoint that find_checkpoint() selected.
struct FoundCheckpoint : LoadedCheckpoint {
  std::string why;  ///< reason for the choice, for the user: "the best of 3 with a score", "the newest", "as asked for"
};
/// Loads the selected checkpoint of a folder, and changes no file there, because another process may be writing. In the
/// search for the best or the newest, unreadable checkpoints are skipped with a line to `warn`. Throws
/// NoCheckpointError, which lists the existing checkpoints, if the selected one does not exist, and CheckpointError
/// like CheckpointStore::load_newest().
FoundCheckpoint find_checkpoint(const std::string& folder, const CheckpointChoice& choice,
                                const Warn& warn = warn_on_stderr);

/// The reason why a file cannot be loaded: none, a system error, damaged bytes, or a wrong name.
enum class Obstacle : std::uint8_t { kNone, kUnreadable, kCorrupt, kMisnamed };
/// Loads one file of at most `limit` bytes from a folder. If there is an obstacle, `why` describes it.
Obstacle try_load(FileOps& ops, int folder, const std::string& name, std::uint64_t limit, LoadedCheckpoint& loaded,
                  std::string& why);
/// Returns the names of the checkpoint files of a folder, newest first. `path` is for the text of NoCheckpointError.
std::vector<std::string> newest_first(FileOps& ops, int folder, const std::string& path);
/// Opens a folder of checkpoints read-only. Throws NoCheckpointError.
FileHandle open_checkpoints(const std::string& folder);
/// Reads MANIFEST of an open folder; if it cannot be read, returns an empty one with `whole` = false.
ManifestReading read_manifest(const FileHandle& folder);
/// Throws NoCheckpointError saying that none of the `tried` files can be loaded.
[[noreturn]] void throw_no_checkpoint(const std::string& path, std::size_t tried);

}  // namespace binade::io
