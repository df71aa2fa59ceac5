#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace binade::examples {

/// A sub-command: declared on the program's command line, run when it was the one given.
using Command = std::function<int()>;

Command add_train(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_predict(CLI::App& program);
Command add_modules(CLI::App& program);
Command add_bench(CLI::App& program);

}  // namespace binade::examples
