#include "binade/autograd/trace.h"

#include <algorithm>

#include "binade/autograd/node.h"
#include "binade/autograd/reachable.h"

namespace binade {

std::vector<RecordedOp> recorded_ops(const Variable& output) {
  std::vector<RecordedOp> ops;
  if (!output.defined() || output.state()->node == nullptr) return ops;
  for (const auto& node : reachable_nodes(output.state()->node))
    ops.push_back({node->tape_index(), node->module_path(), node->info().name, node->context().saved_bytes()});
  std::ranges::reverse(ops);
  return ops;
}

}  // namespace binade
