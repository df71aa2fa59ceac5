#pragma once

#include <string>
#include <vector>

#include "binade/io/checkpoint/find.h"

namespace binade::doctor {

/// The checkpoint files that a path means: itself; those of a run folder or of its checkpoints/, oldest first. Throws
/// NoCheckpointError when there is none.
std::vector<std::string> checkpoint_files(const std::string& path);

inline constexpr io::CheckpointChoice kNewest{.kind = io::CheckpointChoice::Kind::kNewest};

/// The checkpoint that a command reads.
struct Subject {
  io::DecodedCheckpoint checkpoint;
  std::string what;  ///< for people: its path and, for a run folder, why it was chosen
};
/// Loads a checkpoint file, or the checkpoint of a run folder that `which` selects: "best", "newest" or a step; if
/// `which` is empty, `usual`. Throws ArgumentError for any other word, and for a word given with a file.
Subject load(const std::string& path, const std::string& which = "", io::CheckpointChoice usual = kNewest);

bool is_folder(const std::string& path);
/// The folder that holds the checkpoints of a run folder.
std::string checkpoints_folder(const std::string& run);

/// "1.5 GB": for people, three digits.
std::string bytes_text(std::uint64_t bytes);
/// A name or text from a file as one line, without line breaks.
std::string one_line(std::string text);
/// One line of text for a value that is not a tensor, cut to a width.
std::string value_text(const StateDict::Value& value);
/// "f32 (256, 128)"
std::string type_text(const StateDict::Value& value);

}  // namespace binade::doctor
