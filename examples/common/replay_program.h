#pragma once

#include <string>

#include "examples/common/program.h"

namespace binade::examples {

/// Reads a repro bundle and applies the settings of the run that wrote it to `table`. Throws CheckpointError or
/// ArgumentError.
StateDict open_repro_bundle(const std::string& path, Settings& table);

/// Prints the result of a replay for the user on stderr, and as one JSON object on stdout. Returns the exit code 0.
int report_replay(const amp::ReproReplay& replay);

}  // namespace binade::examples
