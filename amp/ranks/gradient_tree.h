#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "binade/core/communicator.h"
#include "binade/core/rank_tree.h"
#include "binade/optim/flat_parameters.h"

namespace binade::amp {

/// Adds the gradients of a step's leaves in the order of the tree (core/rank_tree.h), over all ranks. The sum has the
/// same bits for every number of ranks, because that number decides which rank makes an addition, but never what is
/// added.
///
/// Each rank first sums the subtrees of which it computed every leaf. It then receives the other ranks' subtree sums
/// for its slice of the parameters, completes the tree for that slice, and sends the result to all: a reduce-scatter
/// and an all-gather. If a parameter has no gradient in a node, nothing is added for it, because adding 0 can change
/// bits (-0 + 0 is +0).
class GradientTree {
 public:
  /// The gradients of these parameters are added; `leaves`: number of leaves of the whole step. The arguments must
  /// outlive the tree.
  GradientTree(std::vector<optim::FlatParameters*> parameters, int leaves);

  /// Copies the gradients that backward has accumulated for `leaf`, and clears them. Call it for the leaves in
  /// ascending order. A leaf without micro-batches has no gradients.
  void add(int leaf);

  /// Returns, for each node of this rank, one flag per parameter: 1 if it has a gradient in the node.
  std::vector<std::vector<std::uint8_t>> present() const;

  /// Completes the tree and stores its sum as the gradients of the parameters. `present`: present() of every rank, in
  /// the order of ranks. `what`: as for Communicator::exchange().
  void finish(Communicator& ranks, const std::vector<std::vector<std::vector<std::uint8_t>>>& present,
              std::string_view what);

 private:
  /// The position of one parameter in Node::values.
  struct Place {
    optim::FlatParameters* owner = nullptr;
    std::size_t slice = 0;
    std::int64_t begin = 0, count = 0;
  };
  /// The gradients summed over a subtree. `values` is undefined if no parameter has a gradient in the subtree.
  struct Node {
    LeafRange leaves{};
    std::vector<std::uint8_t> present{};  // one per place
    Tensor values{};
  };
  /// Adds `from` to `into`. The `values` of both hold only the elements [begin, end) of all `count_` elements.
  void merge(Node& into, const Node& from, std::int64_t begin, std::int64_t end) const;
  Node complete(std::vector<Node> nodes, std::int64_t begin, std::int64_t end) const;
  void put_back(const Node& sum);

  std::vector<Place> places_;
  std::int64_t count_ = 0;  // number of elements of the values of all parameters, with padding
  int leaves_;
  std::vector<Node> nodes_;  // from left to right
};

}  // namespace binade::amp
