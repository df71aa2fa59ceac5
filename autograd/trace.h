#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// One op that a result was made with.
struct RecordedOp {
  std::int64_t tape_index = 0;
  std::string module_path{};
  std::string op{};
  std::size_t saved_bytes = 0;  ///< what it keeps for backward
};

/// The ops between `output` and the leaves that want gradients, in the order in which they ran. Ops that no gradient
/// passes through are not on the tape and not in the list.
std::vector<RecordedOp> recorded_ops(const Variable& output);

}  // namespace binade
