#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Returns `root` and every node that it depends on, the last executed node first. Uses no recursion.
std::vector<std::shared_ptr<Node>> reachable_nodes(const std::shared_ptr<Node>& root);
/// Like reachable_nodes(root), for several roots. A root may be null or occur twice.
std::vector<std::shared_ptr<Node>> reachable_nodes(std::span<const std::shared_ptr<Node>> roots);

/// Description of an op on the tape.
struct RecordedOp {
  std::int64_t tape_index = 0;
  std::string module_path{};
  std::string op{};
  std::size_t saved_bytes = 0;  ///< bytes of the tensors that it saved for backward
};

/// Returns the recorded ops between `output` and the leaves that require gradients, in order of execution. Ops that no
/// gradient passes through are not recorded.
std::vector<RecordedOp> recorded_ops(const Variable& output);

}  // namespace binade
