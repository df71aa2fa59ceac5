#include "binade/autograd/trace.h"

#include <algorithm>
#include <unordered_set>

#include "binade/autograd/node.h"

namespace binade {

std::vector<std::shared_ptr<Node>> reachable_nodes(const std::shared_ptr<Node>& root) {
  return reachable_nodes(std::span(&root, 1));
}

std::vector<std::shared_ptr<Node>> reachable_nodes(std::span<const std::shared_ptr<Node>> roots) {
  std::vector<std::shared_ptr<Node>> nodes;
  std::unordered_set<const Node*> seen;
  for (const std::shared_ptr<Node>& root : roots)
    if (root && seen.insert(root.get()).second) nodes.push_back(root);
  for (std::size_t next = 0; next < nodes.size(); ++next)
    for (const Edge& edge : nodes[next]->edges())
      if (edge.node && seen.insert(edge.node.get()).second) nodes.push_back(edge.node);
  std::ranges::sort(nodes, [](const auto& a, const auto& b) { return a->order() > b->order(); });
  return nodes;
}

std::vector<RecordedOp> recorded_ops(const Variable& output) {
  std::vector<RecordedOp> ops;
  if (!output.defined() || output.state()->node == nullptr) return ops;
  for (const auto& node : reachable_nodes(output.state()->node))
    ops.push_back({node->tape_index(), node->module_path(), node->info().name, node->context().saved_bytes()});
  std::ranges::reverse(ops);
  return ops;
}

}  // namespace binade
