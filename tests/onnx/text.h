#pragma once

#include <string>

#include "tests/onnx/golden_node.h"

namespace binade::onnx {

/// Runs a case and returns its result as lines:
///
///     case NAME
///     said                        or: cannot REASON, or: error WHAT, for an exception of Binade
///     tensor out.0 f32 2,3 : …    for each output that is defined, exact
///     end
std::string answer(const golden::Case& source);

}  // namespace binade::onnx
