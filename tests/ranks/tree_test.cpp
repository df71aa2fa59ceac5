#include <gtest/gtest.h>

#include <string>

#include "binade/core/rank_tree.h"

namespace binade {
namespace {

/// A sum as a text with parentheses, which show the order of additions.
struct Sum {
  LeafRange leaves{};
  std::string text{};
};

/// Adds sums with a stack, as the ranks do.
std::vector<Sum> added(int leaves, std::vector<Sum> sums) {
  std::vector<Sum> stack;
  for (Sum& sum : sums) {
    stack.push_back(std::move(sum));
    while (stack.size() > 1 && are_siblings(leaves, stack[stack.size() - 2].leaves, stack.back().leaves)) {
      const Sum right = std::move(stack.back());
      stack.pop_back();
      stack.back() = {{stack.back().leaves.begin, right.leaves.end}, "(" + stack.back().text + "+" + right.text + ")"};
    }
  }
  return stack;
}

std::vector<Sum> leaves_in(LeafRange run) {
  std::vector<Sum> sums;
  for (int i = run.begin; i < run.end; ++i) sums.push_back({{i, i + 1}, std::to_string(i)});
  return sums;
}

/// The sum of the leaves of `node` by the recursive definition of the tree.
std::string defined(LeafRange node) {
  if (node.size() == 1) return std::to_string(node.begin);
  int width = 1;
  while (2 * width < node.size()) width *= 2;
  const int split = node.begin + width;
  return "(" + defined({node.begin, split}) + "+" + defined({split, node.end}) + ")";
}

TEST(RankTree, EveryNumberOfRanksAddsInTheSameOrder) {
  for (int leaves = 1; leaves <= 64; ++leaves) {
    const std::string wanted = defined({0, leaves});
    for (int ranks = 1; ranks <= leaves; ++ranks) {
      std::vector<Sum> nodes;
      for (int rank = 0; rank < ranks; ++rank) {
        const LeafRange run = share_of(leaves, rank, ranks);
        const std::vector<Sum> mine = added(leaves, leaves_in(run));
        const std::vector<LeafRange> planned = nodes_of(leaves, run);
        ASSERT_EQ(mine.size(), planned.size());
        for (std::size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i].leaves, planned[i]);
        nodes.insert(nodes.end(), mine.begin(), mine.end());
      }
      const std::vector<Sum> whole = added(leaves, nodes);
      ASSERT_EQ(whole.size(), 1u) << leaves << " leaves, " << ranks << " ranks";
      ASSERT_EQ(whole.front().text, wanted) << leaves << " leaves, " << ranks << " ranks";
    }
  }
}

TEST(RankTree, SharesAreContiguousAndDifferByAtMostOne) {
  for (int count = 1; count <= 70; ++count)
    for (int ranks = 1; ranks <= count; ++ranks) {
      int next = 0, least = count, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const LeafRange share = share_of(count, rank, ranks);
        ASSERT_EQ(share.begin, next);
        next = share.end;
        least = std::min(least, share.size());
        most = std::max(most, share.size());
      }
      ASSERT_EQ(next, count);
      ASSERT_LE(most - least, 1);
      ASSERT_GE(least, 1);
    }
}

TEST(RankTree, LeavesOfAllRanksHoldEveryMicroBatchOnce) {
  for (int micro_batches = 1; micro_batches <= 20; ++micro_batches)
    for (int leaves = 1; leaves <= micro_batches; ++leaves)
      for (int ranks = 1; ranks <= leaves; ++ranks) {
        int next = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const LeafRange own = share_of(leaves, rank, ranks);
          const LeafRange all = micro_batches_of(micro_batches, leaves, own);
          ASSERT_EQ(all.begin, next);
          for (int leaf = own.begin; leaf < own.end; ++leaf) {
            const LeafRange part = micro_batches_of(micro_batches, leaves, {leaf, leaf + 1});
            ASSERT_EQ(part.begin, next);
            ASSERT_GE(part.size(), 1);
            next = part.end;
          }
          ASSERT_EQ(all.end, next);
        }
        ASSERT_EQ(next, micro_batches);
      }
}

}  // namespace
}  // namespace binade
