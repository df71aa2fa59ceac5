#include "binade/autograd/excluded_leaves.h"

#include <algorithm>
#include <utility>

#include "binade/autograd/node.h"

namespace binade {
namespace {

thread_local ExcludedLeaves* excluded_leaves = nullptr;

}  // namespace

ExcludedLeaves::ExcludedLeaves(const LeafSet& leaves) : leaves_(leaves) { open(); }
ExcludedLeaves::ExcludedLeaves(std::span<const std::shared_ptr<Variable::State>> leaves) : leaves_(own_) {
  for (const auto& leaf : leaves) own_.insert(leaf.get());
  open();
}
ExcludedLeaves::~ExcludedLeaves() {
  if (!leaves_.empty()) excluded_leaves = outer_;
}

/// Registers the scope, unless it has no leaves: backwards then search for none.
void ExcludedLeaves::open() {
  if (!leaves_.empty()) outer_ = std::exchange(excluded_leaves, this);
}

bool ExcludedLeaves::has(const Variable::State* leaf) const {
  return leaves_.contains(leaf) || (outer_ != nullptr && outer_->has(leaf));
}

bool NeededGradients::is_excluded(const Variable::State* leaf) {
  return excluded_leaves != nullptr && excluded_leaves->has(leaf);
}

NeededGradients::NeededGradients(std::span<const std::shared_ptr<Node>> nodes) {
  const auto leads_to_excluded = [](const auto& node) {
    return std::ranges::any_of(node->edges(),
                               [](const Edge& e) { return e.leaf != nullptr && is_excluded(e.leaf.get()); });
  };
  all_ = excluded_leaves == nullptr || std::ranges::none_of(nodes, leads_to_excluded);
  if (all_) return;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {  // producers first
    // The edges of a recomputed segment do not show the parameters that it reads.
    const bool is_segment = (*node)->observed() && (*node)->params() == nullptr;
    if (is_segment || std::ranges::any_of((*node)->edges(), [this](const Edge& edge) { return needs(edge); }))
      leading_.insert(node->get());
  }
}

bool NeededGradients::needs(const Edge& edge) const {
  if (edge.leaf != nullptr) return all_ || !is_excluded(edge.leaf.get());
  return edge.node != nullptr && leads(edge.node.get());
}

}  // namespace binade
