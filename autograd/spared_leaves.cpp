#include "binade/autograd/spared_leaves.h"

#include <algorithm>
#include <utility>

#include "binade/autograd/node.h"

namespace binade {
namespace {

thread_local SparedLeaves* spared_leaves = nullptr;

}  // namespace

SparedLeaves::SparedLeaves(const LeafSet& leaves) : leaves_(leaves) { open(); }
SparedLeaves::SparedLeaves(std::span<const std::shared_ptr<Variable::State>> leaves) : leaves_(own_) {
  for (const auto& leaf : leaves) own_.insert(leaf.get());
  open();
}
SparedLeaves::~SparedLeaves() {
  if (!leaves_.empty()) spared_leaves = outer_;
}

/// Without leaves, the thread's backwards look for none.
void SparedLeaves::open() {
  if (!leaves_.empty()) outer_ = std::exchange(spared_leaves, this);
}

bool SparedLeaves::has(const Variable::State* leaf) const {
  return leaves_.contains(leaf) || (outer_ != nullptr && outer_->has(leaf));
}

bool Wanted::is_spared(const Variable::State* leaf) { return spared_leaves != nullptr && spared_leaves->has(leaf); }

Wanted::Wanted(std::span<const std::shared_ptr<Node>> nodes) {
  const auto leads_to_spared = [](const auto& node) {
    return std::ranges::any_of(node->edges(),
                               [](const Edge& e) { return e.leaf != nullptr && is_spared(e.leaf.get()); });
  };
  all_ = spared_leaves == nullptr || std::ranges::none_of(nodes, leads_to_spared);
  if (all_) return;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {  // producers first
    // The edges of a recomputed segment do not show the parameters that it reads.
    const bool is_segment = (*node)->observed() && (*node)->params() == nullptr;
    if (is_segment || std::ranges::any_of((*node)->edges(), [this](const Edge& edge) { return needs(edge); }))
      leading_.insert(node->get());
  }
}

bool Wanted::needs(const Edge& edge) const {
  if (edge.leaf != nullptr) return all_ || !is_spared(edge.leaf.get());
  return edge.node != nullptr && leads(edge.node.get());
}

}  // namespace binade
