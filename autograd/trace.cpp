#include "binade/autograd/trace.h"

#include <algorithm>
#include <unordered_set>

#include "binade/autograd/node.h"

namespace binade {

std::vector<std::shared_ptr<Node>> reachable_nodes(const std::shared_ptr<Node>& root) {
  std::vector<std::shared_ptr<Node>> nodes{root};
  std::unordered_set<const Node*> seen{root.get()};
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
