#pragma once

#include <optional>
#include <string>
#include <vector>

namespace binade::amp {

/// A place in the source of the user's program, as far as it is known.
struct SourcePlace {
  std::string function{};  ///< "Net::forward"; "a lambda in main"; empty if the program has no symbols
  std::string file{};      ///< empty if the program was compiled without debug information (-g)
  int line = 0;            ///< 0 if `file` is empty

  /// Returns "Net::forward (model.cpp:41)", or the part of it that is known.
  std::string text() const;
};

/// Return addresses of a call stack, innermost first.
using CallStack = std::vector<void*>;
/// Captures the stack of the caller, at most 64 calls. Takes some microseconds.
CallStack capture_call_stack();

/// Returns the innermost call in a stack that neither Binade nor the standard library made; std::nullopt if its
/// function is unknown. Reads debug information through /usr/bin/addr2line, if that is installed; gives up after 10
/// seconds.
std::optional<SourcePlace> user_place(const CallStack& stack);

}  // namespace binade::amp
