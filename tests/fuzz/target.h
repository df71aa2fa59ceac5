#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/draws.h"
#include "tests/fuzz/report.h"

namespace binade::fuzz {

/// What a reader did with an input.
enum class Answer { kAccepted, kRefused };

/// One reader under test.
struct Target {
  std::string name{};
  std::string what{};  ///< one line for people: the function that reads, and its inputs
  /// Makes an input. Half of them are structured: lengths and checksums fit, so that what lies behind them is reached.
  std::string (*make)(Draws&);
  /// Reads it. Throws what the reader throws; throws Unsound when what was accepted is not what it ought to be.
  Answer (*read)(const std::string& input);
  /// Whether `error` is one that the reader's header promises.
  bool (*documented)(const std::exception& error);
};

/// All of them; to add one, write its function and name it in targets.cpp.
const std::vector<Target>& all_targets();

Target checkpoint_target();
Target safetensors_target();
Target npy_target();
Target png_target();
Target idx_target();
Target token_target();
Target text_target();
Target bpe_target();
Target manifest_target();
Target settings_target();
Target journal_target();

}  // namespace binade::fuzz
