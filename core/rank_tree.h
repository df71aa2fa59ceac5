#pragma once

#include <cstdint>
#include <vector>

namespace binade {

/// Leaves or micro-batches [begin, end) of a step.
struct LeafRange {
  int begin = 0, end = 0;
  constexpr int size() const { return end - begin; }
  constexpr bool contains(int i) const { return begin <= i && i < end; }
  bool operator==(const LeafRange&) const = default;
};

/// Returns the part of `count` items that belongs to a rank: a contiguous run; sizes differ by at most one.
constexpr LeafRange share_of(int count, int rank, int ranks) {
  const auto at = [&](int r) { return static_cast<int>(static_cast<std::int64_t>(count) * r / ranks); };
  return {at(rank), at(rank + 1)};
}

/// Returns the micro-batches in a run of leaves, for a step that is divided into `leaves` leaves.
constexpr LeafRange micro_batches_of(int micro_batches, int leaves, LeafRange run) {
  return {share_of(micro_batches, run.begin, leaves).begin, share_of(micro_batches, run.end, leaves).begin};
}

// The order of additions: a binary tree over the leaves of a step. With n leaves, the left subtree has 2^k of them, the
// largest power of two that is less than n. The tree depends only on n, not on which rank adds (decision 0077).

/// Returns the first leaf of the right subtree. REQUIRES: node.size() >= 2.
constexpr int split_of(LeafRange node) {
  int width = 1;
  while (2 * width < node.size()) width *= 2;
  return node.begin + width;
}

/// True if `range` is a node of the tree over `leaves` leaves.
constexpr bool is_node(int leaves, LeafRange range) {
  if (range.size() < 1) return false;
  LeafRange node{0, leaves};
  while (node.begin <= range.begin && range.end <= node.end) {
    if (node == range) return true;
    if (node.size() == 1) return false;
    const int split = split_of(node);
    node = range.begin < split ? LeafRange{node.begin, split} : LeafRange{split, node.end};
  }
  return false;
}

/// True if `left` and `right` are the two subtrees of one node.
constexpr bool are_siblings(int leaves, LeafRange left, LeafRange right) {
  const LeafRange parent{left.begin, right.end};
  return left.end == right.begin && is_node(leaves, parent) && split_of(parent) == left.end;
}

/// Returns the fewest nodes of the tree that together make up a run of leaves, from left to right.
inline std::vector<LeafRange> nodes_of(int leaves, LeafRange run) {
  std::vector<LeafRange> nodes;
  for (int i = run.begin; i < run.end; ++i) {
    nodes.push_back({i, i + 1});
    while (nodes.size() > 1 && are_siblings(leaves, nodes[nodes.size() - 2], nodes.back())) {
      const LeafRange right = nodes.back();
      nodes.pop_back();
      nodes.back().end = right.end;
    }
  }
  return nodes;
}

}  // namespace binade
