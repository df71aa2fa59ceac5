#pragma once

#include "examples/common/command.h"

namespace binade::examples {

Command add_train(CLI::App& program);
Command add_preflight(CLI::App& program);
Command add_init(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_sample(CLI::App& program);
Command add_modules(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_replay(CLI::App& program);

}  // namespace binade::examples
