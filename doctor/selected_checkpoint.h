#pragma once

#include <string>
#include <vector>

#include "binade/io/checkpoint/find.h"

namespace binade::doctor {

/// Returns the checkpoint files that a path refers to: the path itself if it is a file; otherwise the checkpoints of
/// the run folder, or of the folder checkpoints/ in one, oldest first. Throws NoCheckpointError if there is none.
std::vector<std::string> checkpoint_files(const std::string& path);

/// Selects the newest intact checkpoint.
inline constexpr io::CheckpointChoice kNewest{.rule = io::CheckpointChoice::Rule::kNewest};

/// The checkpoint that a command reads.
struct SelectedCheckpoint {
  io::DecodedCheckpoint checkpoint;
  std::string description;  ///< its path and, for a run folder, the reason for the choice
};
/// Loads a checkpoint file, or the checkpoint of a run folder that `which` selects: "best", "newest" or a step. If
/// `which` is empty, loads the one that `usual` selects. Throws ArgumentError for any other word, and for a word if the
/// path is a file.
SelectedCheckpoint load(const std::string& path, const std::string& which = "", io::CheckpointChoice usual = kNewest);

bool is_folder(const std::string& path);
/// Returns the folder that holds the checkpoints of a run: RUN/checkpoints or, if there is no such folder, `run`.
std::string checkpoints_folder(const std::string& run);

/// Returns "1.5 GB", with three digits.
std::string bytes_text(std::uint64_t bytes);
/// Replaces line breaks and tabs in a name or text from a file.
std::string one_line(std::string text);
/// Returns a value as one line of text, truncated; a tensor as its type.
std::string value_text(const StateDict::Value& value);
/// Returns the type of a value: "f32 (256, 128)", "integers".
std::string type_text(const StateDict::Value& value);

}  // namespace binade::doctor
