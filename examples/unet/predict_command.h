#pragma once

#include "examples/common/command.h"

namespace binade::examples {

/// `predict`: segments images from files.
Command add_predict(CLI::App& program);

}  // namespace binade::examples
