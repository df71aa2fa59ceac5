#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/draws.h"
#include "tests/fuzz/report.h"

namespace binade::fuzz {

/// A reader's answer to an input.
enum class Answer { kAccepted, kRefused };

/// One reader under test.
struct Target {
  std::string name{};
  std::string what{};  ///< a line for --list: the function that reads, and its inputs
  /// Generates an input. Half of them have right lengths and checksums, so that the code after these checks is reached.
  std::string (*make)(Draws&);
  /// Reads an input. Throws the reader's error, or WrongResult if the reader accepted it with a wrong result.
  Answer (*read)(const std::string& input);
  /// Whether the reader's header documents `error`.
  bool (*documented)(const std::exception& error);
};

/// Every target; to add one, write its functions and list it in targets.cpp.
const std::vector<Target>& all_targets();

Target checkpoint_target();
Target safetensors_target();
Target npy_target();
Target npz_target();
Target pytorch_target();
Target png_target();
Target idx_target();
Target token_target();
Target text_target();
Target bpe_target();
Target manifest_target();
Target settings_target();
Target journal_target();

}  // namespace binade::fuzz
