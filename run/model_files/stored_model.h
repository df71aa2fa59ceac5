#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "binade/core/state_dict.h"
#include "binade/io/checkpoint/find.h"

namespace binade {

/// A checkpoint and the path of its file.
struct ChosenCheckpoint {
  std::string file{};
  StateDict state{};
};

/// Reads a checkpoint. `path` is a file, a run folder, or the folder checkpoints/ in one; `choice` is for folders.
/// Tells `say`, unless it is empty, which checkpoint of a folder was chosen and why. Throws the errors of
/// io::load_checkpoint() and io::find_checkpoint().
ChosenCheckpoint choose_checkpoint(const std::string& path, const io::CheckpointChoice& choice, const io::Warn& say);

/// If an entry of a checkpoint is the average of a parameter, returns the name of the parameter, otherwise
/// std::nullopt. Each optimizer has its own averages: "optim/ema/average/NAME" or, if there are several,
/// "optim/OPTIMIZER/ema/average/NAME".
std::optional<std::string_view> averaged_parameter(std::string_view entry);

}  // namespace binade
