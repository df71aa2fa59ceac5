#pragma once

#include <memory>
#include <span>
#include <unordered_set>

#include "binade/autograd/variable.h"

namespace binade {

using LeafSet = std::unordered_set<const Variable::State*>;

/// During its lifetime, backwards of this thread compute no gradients of the given leaves (*excluded* leaves), and no
/// gradients that lead to excluded leaves only. Other gradients keep their bits. Recording, requires_grad() and grad()
/// do not change, so that a graph may be recorded before the scope begins. Scopes nest: a leaf is excluded if one of
/// them has it.
class ExcludedLeaves : NonCopyable {
 public:
  /// `leaves` must outlive the scope.
  explicit ExcludedLeaves(const LeafSet& leaves);
  explicit ExcludedLeaves(std::span<const std::shared_ptr<Variable::State>> leaves);
  ~ExcludedLeaves();

 private:
  friend class NeededGradients;
  bool has(const Variable::State* leaf) const;

  void open();

  ExcludedLeaves* outer_ = nullptr;
  LeafSet own_;
  const LeafSet& leaves_;
};

class Node;
struct Edge;

/// The part of a graph that a backward of this thread computes gradients for: the nodes that lead to a leaf that is not
/// excluded.
class NeededGradients {
 public:
  /// `nodes`: those of the graph, the last executed one first.
  explicit NeededGradients(std::span<const std::shared_ptr<Node>> nodes);
  /// True if the variable at `edge` is a leaf that is not excluded, or was computed from one.
  bool needs(const Edge& edge) const;
  /// True if the node leads to a leaf that is not excluded.
  bool leads(const Node* node) const { return all_ || leading_.contains(node); }
  static bool is_excluded(const Variable::State* leaf);

 private:
  bool all_ = true;
  std::unordered_set<const Node*> leading_;
};

}  // namespace binade
