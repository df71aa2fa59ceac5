#pragma once

#include <string>

#include "examples/common/program.h"

namespace binade::examples {

/// Reads a capsule and puts the settings of the run that wrote it into `table`. Throws CheckpointError or
/// ArgumentError.
StateDict open_capsule(const std::string& path, Settings& table);

/// Tells a person what came out, on stderr, and prints one JSON object as stdout's last line. The exit code: 0.
int tell_replay(const amp::ReproReplay& replay);

}  // namespace binade::examples
