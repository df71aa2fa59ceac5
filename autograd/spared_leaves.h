#pragma once

#include <memory>
#include <span>
#include <unordered_set>

#include "binade/autograd/variable.h"

namespace binade {

using LeafSet = std::unordered_set<const Variable::State*>;

/// During its lifetime, backwards of this thread compute no gradient for some leaves, and none that leads to no other
/// leaf. Gradients pass through the ops that read the leaves as before, with the same bits. Recording, requires_grad()
/// and grad() do not change, so that a graph may be recorded before. Scopes nest: a leaf is spared if one of them has
/// it.
class SparedLeaves : NonCopyable {
 public:
  /// `leaves` must outlive the scope.
  explicit SparedLeaves(const LeafSet& leaves);
  explicit SparedLeaves(std::span<const std::shared_ptr<Variable::State>> leaves);
  ~SparedLeaves();

 private:
  friend class Wanted;
  bool has(const Variable::State* leaf) const;

  void open();

  SparedLeaves* outer_ = nullptr;
  LeafSet own_;
  const LeafSet& leaves_;
};

class Node;
struct Edge;

/// The part of a graph that a backward of this thread computes gradients for: all of it, except where it leads to
/// spared leaves only.
class Wanted {
 public:
  /// `nodes`: those of the graph, the last executed one first.
  explicit Wanted(std::span<const std::shared_ptr<Node>> nodes);
  /// True if the gradient of the variable at `edge` is that of a leaf that is not spared, or leads to one.
  bool needs(const Edge& edge) const;
  /// True if the node leads to a leaf that is not spared.
  bool leads(const Node* node) const { return all_ || leading_.contains(node); }
  static bool is_spared(const Variable::State* leaf);

 private:
  bool all_ = true;
  std::unordered_set<const Node*> leading_;
};

}  // namespace binade
