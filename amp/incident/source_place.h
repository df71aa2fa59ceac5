#pragma once

#include <optional>

#include "binade/amp/incident/incident.h"

namespace binade::amp {

/// Captures the stack of the caller, at most 64 calls. Takes some microseconds.
CallStack capture_call_stack();

/// Returns the innermost call in a stack that neither Binade nor the standard library made; std::nullopt if its
/// function is unknown. Reads debug information through /usr/bin/addr2line, if that is installed, for at most 5 seconds
/// in the life of a process. Remembers its results.
std::optional<SourcePlace> user_place(const CallStack& stack);

}  // namespace binade::amp
