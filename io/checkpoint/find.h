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

/// Called with one line for a person. The default prints it to stderr.
using Warn = std::function<void(const std::string&)>;
void warn_on_stderr(const std::string& line);
/// One line for each group that a load left out; see CheckpointInfo.
void tell_what_was_left_out(const CheckpointInfo& info, const std::string& file, const Warn& warn);

/// A whole checkpoint whose name gives another step than its content. It is not resumed: otherwise a copied file could
/// change the step of a run.
class MisnamedCheckpointError : public NoCheckpointError {
 public:
  using NoCheckpointError::NoCheckpointError;
};
/// Throws MisnamedCheckpointError when the file's `name` and its content give different steps. A name that is not a
/// run's checkpoint name always fits, and so does a file of weights without a step.
void check_name_fits(const std::string& name, const CheckpointInfo& info);

struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::string file{};
  StateDict state{};
  CheckpointInfo info{};
};

/// Loads the newest whole checkpoint of a folder that another process may be writing; only reads. Otherwise as
/// CheckpointStore::load_newest().
LoadedCheckpoint find_newest_checkpoint(const std::string& folder, const Warn& warn = warn_on_stderr);

/// Selects a checkpoint of a run.
struct CheckpointChoice {
  enum class Kind : std::uint8_t {
    kUsual,   ///< the best, or the newest if none has a score
    kBest,    ///< the best by the score of its evaluation
    kNewest,  ///< the newest that is whole
    kStep,    ///< the one of `step`
  };
  Kind kind = Kind::kUsual;
  std::int64_t step = 0;
};
/// Parses "best", "newest" or a step ("500"); returns nothing for any other text, which is a file name.
std::optional<CheckpointChoice> checkpoint_choice(std::string_view text);

struct FoundCheckpoint : LoadedCheckpoint {
  std::string why;  ///< for people: "the best of 3 with a score", "the newest", "as asked for"
};
/// Loads the selected checkpoint of a folder; only reads, because another process may be writing there. On the way to
/// the best or the newest, unreadable checkpoints are skipped with a line to `warn`. Throws NoCheckpointError, which
/// lists the existing checkpoints, when the selected one does not exist, and CheckpointError as
/// CheckpointStore::load_newest().
FoundCheckpoint find_checkpoint(const std::string& folder, const CheckpointChoice& choice,
                                const Warn& warn = warn_on_stderr);

/// Why a file cannot be loaded: no reason, a system error, its bytes, or its name.
enum class Obstacle : std::uint8_t { kNone, kUnreadable, kCorrupt, kMisnamed };
/// Loads one file of a folder of at most `limit` bytes. `why` says what is wrong if there is an obstacle.
Obstacle try_load(FileOps& ops, int folder, const std::string& name, std::uint64_t limit, LoadedCheckpoint& loaded,
                  std::string& why);
/// Names of the checkpoint files of a folder, newest first. `path` is for the text of NoCheckpointError.
std::vector<std::string> newest_first(FileOps& ops, int folder, const std::string& path);
/// Throws NoCheckpointError: none of the `tried` files can be loaded.
[[noreturn]] void none_left(const std::string& path, std::size_t tried);

}  // namespace binade::io
