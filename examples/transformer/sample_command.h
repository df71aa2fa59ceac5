#pragma once

#include "examples/common/command.h"

namespace binade::examples {

/// `sample`: continues a prompt.
Command add_sample(CLI::App& program);

}  // namespace binade::examples
