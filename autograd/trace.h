#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Returns every node that `root` depends on, including itself, latest first: the tape in reverse. Without recursion.
std::vector<std::shared_ptr<Node>> reachable_nodes(const std::shared_ptr<Node>& root);

/// An op on the tape.
struct RecordedOp {
  std::int64_t tape_index = 0;
  std::string module_path{};
  std::string op{};
  std::size_t saved_bytes = 0;  ///< saved for backward
};

/// Returns the recorded ops between `output` and the leaves that require gradients, in order of execution. Ops that no
/// gradient passes through are not recorded.
std::vector<RecordedOp> recorded_ops(const Variable& output);

}  // namespace binade
