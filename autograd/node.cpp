#include "binade/autograd/node.h"

#include <algorithm>
#include <new>

#include "binade/core/error.h"
#include "binade/core/per_thread.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Returns an order above that of every node that `edges` lead to, even if another thread recorded the node.
std::uint64_t next_order(const std::vector<Edge>& edges) {
  thread_local std::uint64_t order = 0;
  for (const Edge& edge : edges)
    if (edge.node) order = std::max(order, edge.node->order() + 1);
  return order++;
}

bool are_weights(const std::vector<OpContext::Input>& inputs, const std::vector<Edge>& edges) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Edge& edge = edges[i];
    if (edge.node ? !edge.node->computes_weights() : edge.leaf ? !edge.leaf->parameter : inputs[i].shape.numel() != 1)
      return false;
  }
  return true;
}

/// Destroying an edge may destroy a node, whose edges may destroy the next one; with recursion, a chain of 200,000 ops
/// would overflow the stack. So edges are collected, and the outermost call destroys them in a loop.
void destroy_in_a_loop(std::vector<Edge>&& edges) {
  constinit thread_local PerThread<std::vector<Edge>> t_parked;
  thread_local bool draining = false;
  std::vector<Edge>& parked = t_parked.get();
  for (Edge& edge : edges)
    if (edge.node) try {
        parked.push_back(std::move(edge));
      } catch (const std::bad_alloc&) {  // no memory for the list: edges.clear() then destroys the edge recursively
      }
  edges.clear();
  if (draining) return;
  draining = true;
  while (!parked.empty()) {
    const Edge last = std::move(parked.back());
    parked.pop_back();
  }
  draining = false;
}

}  // namespace

Node::Node(const OpInfo& info, OpContext context, std::vector<Edge> edges, int outputs)
    : context_(std::move(context)),
      info_(info),
      module_path_(step_context().module_path),
      tape_index_(step_context().next.tape_index - 1),
      order_(next_order(edges)),
      edges_(std::move(edges)),
      outputs_(outputs),
      computes_weights_(!edges_.empty() && edges_.size() == context_.inputs.size() &&
                        are_weights(context_.inputs, edges_)) {
  context_.recomputable.clear();  // used during forward only
}

Node::~Node() { destroy_in_a_loop(std::move(edges_)); }

void Node::check_not_released() const {
  const std::string at = module_path_.empty() ? "" : " [" + module_path_ + "]";
  check<AutogradError>(!released_,
                       "{}{}: backward ran twice through the same node; run forward again, or pass retain_graph",
                       info_.name, at);
}

void Node::release() {
  released_ = true;
  context_.release();
  destroy_in_a_loop(std::move(edges_));
}

}  // namespace binade
