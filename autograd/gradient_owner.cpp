#include "binade/autograd/gradient_owner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "binade/autograd/node.h"
#include "binade/core/per_thread.h"

namespace binade {
namespace {

constexpr std::size_t kKept = 8;

/// The notes of this thread.
struct Notes {
  std::vector<UnheldGradients> ended{};
  std::optional<UnheldGradients> current{};  // of the outermost backward in progress
};

Notes& notes() {
  constinit thread_local PerThread<Notes> t_notes;
  return t_notes.get();
}

thread_local UnregisteredLeaves* loose_leaves = nullptr;
thread_local int depth = 0;
thread_local double loss_scale = 1;

void add(std::vector<UnheldLeaf>& leaves, const std::shared_ptr<Variable::State>& leaf, const Node& node) {
  const auto same = [&](const UnheldLeaf& other) { return other.leaf.lock() == leaf; };
  auto found = std::ranges::find_if(leaves, same);
  if (found == leaves.end()) found = leaves.insert(found, {.leaf = leaf});
  found->op = node.observed() ? node.info().name : "";
  found->module = node.module_path();
}

}  // namespace

ScaledBackward::ScaledBackward(double scale) : ScopedValue(loss_scale, scale) {}

UnregisteredLeaves::UnregisteredLeaves() : outer_(std::exchange(loose_leaves, this)) {}
UnregisteredLeaves::~UnregisteredLeaves() { loose_leaves = outer_; }

std::vector<UnheldGradients> take_unheld_gradients() { return std::exchange(notes().ended, {}); }

BackwardNotes::BackwardNotes(std::span<const std::shared_ptr<Node>> nodes) : outermost_(depth == 0) {
  if (outermost_) notes().current.reset();  // left by a backward that threw before it began
  bool unheld = false;
  for (const std::shared_ptr<Node>& node : nodes)  // in reverse order: the first reader of a leaf remains
    for (const Edge& edge : node->edges()) {
      if (edge.leaf == nullptr) continue;
      if (loss_scale != 1) edge.leaf->loss_scale = loss_scale;
      if (edge.leaf->holders.load(std::memory_order_relaxed) > 0) continue;
      unheld = unheld || edge.leaf->parameter;
      if (loose_leaves != nullptr && !edge.leaf->parameter && !edge.leaf->recomputed)
        add(loose_leaves->leaves_, edge.leaf, *node);
    }
  std::optional<UnheldGradients>& current = notes().current;
  if (unheld && !current) current.emplace().recomputed = !outermost_;
  for (const std::shared_ptr<Node>& node : nodes)
    for (const Edge& edge : node->edges()) {
      if (edge.leaf == nullptr || !current) continue;
      if (edge.leaf->holders.load(std::memory_order_relaxed) > 0)
        current->others.push_back(edge.leaf.get());
      else if (edge.leaf->parameter)
        add(current->parameters, edge.leaf, *node);
    }
  ++depth;
}

BackwardNotes::~BackwardNotes() {
  --depth;
  if (!outermost_ || !notes().current) return;
  std::vector<UnheldGradients>& ended = notes().ended;
  if (ended.size() == kKept) ended.erase(ended.begin());
  ended.push_back(*std::exchange(notes().current, std::nullopt));
}

}  // namespace binade
