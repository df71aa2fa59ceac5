#include "binade/autograd/reachable.h"

#include <algorithm>
#include <unordered_set>

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

}  // namespace binade
