#include "binade/amp/ranks/gradient_tree.h"

#include <algorithm>

namespace binade::amp {
namespace {

constexpr std::int64_t kAlignment = 16;  // elements

}  // namespace

GradientTree::GradientTree(std::vector<optim::FlatParameters*> parameters, int leaves) : leaves_(leaves) {
  for (optim::FlatParameters* owner : parameters)
    for (std::size_t slice = 0; slice < owner->size(); ++slice) {
      const std::int64_t count = owner->slices()[slice].count;
      places_.push_back({owner, slice, count_, count});
      count_ += (count + kAlignment - 1) / kAlignment * kAlignment;
    }
}

void GradientTree::add(int leaf) {
  Node node{.leaves = {leaf, leaf + 1}};
  for (const Place& place : places_) {
    const bool has = place.owner->has_gradient(place.slice);
    node.present.push_back(has);
    if (!has) continue;
    const Tensor gradient = place.owner->slices()[place.slice].variable.state()->grad;
    if (!node.values.defined()) node.values = Tensor::zeros(Shape{count_}, DType::f32, gradient.device());
    node.values.view_at(place.begin, gradient.shape()).copy_from(gradient);
  }
  for (const Place& place : places_) Variable(place.owner->slices()[place.slice].variable).zero_grad();
  nodes_.push_back(std::move(node));
  while (nodes_.size() > 1 && are_siblings(leaves_, nodes_[nodes_.size() - 2].leaves, nodes_.back().leaves)) {
    const Node right = std::move(nodes_.back());
    nodes_.pop_back();
    merge(nodes_.back(), right, 0, count_);
  }
}

void GradientTree::merge(Node& into, const Node& from, std::int64_t begin, std::int64_t end) const {
  into.leaves.end = from.leaves.end;
  if (!from.values.defined()) return;
  if (!into.values.defined()) {
    into.values = from.values;
    into.present = from.present;
    return;
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::int64_t first = std::max(places_[i].begin, begin);
    const std::int64_t count = std::min(places_[i].begin + places_[i].count, end) - first;
    if (from.present[i] != 0 && count > 0) {
      Tensor sum = into.values.view_at(first - begin, Shape{count});
      const Tensor other = from.values.view_at(first - begin, Shape{count});
      into.present[i] != 0 ? accumulate(sum, other) : sum.copy_from(other);
    }
    into.present[i] |= from.present[i];
  }
}

std::vector<std::vector<std::uint8_t>> GradientTree::present() const {
  std::vector<std::vector<std::uint8_t>> present;
  for (const Node& node : nodes_) present.push_back(node.present);
  return present;
}

/// Adds up nodes that cover the whole tree, from left to right, and returns the sum.
GradientTree::Node GradientTree::complete(std::vector<Node> nodes, std::int64_t begin, std::int64_t end) const {
  std::vector<Node> stack;
  for (Node& node : nodes) {
    stack.push_back(std::move(node));
    while (stack.size() > 1 && are_siblings(leaves_, stack[stack.size() - 2].leaves, stack.back().leaves)) {
      const Node right = std::move(stack.back());
      stack.pop_back();
      merge(stack.back(), right, begin, end);
    }
  }
  return std::move(stack.front());
}

void GradientTree::put_back(const Node& sum) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    Variable::State& state = *place.owner->slices()[place.slice].variable.state();
    state.grad_defined = sum.present[i] != 0;
    if (!state.grad_defined) continue;
    state.grad = place.owner->gradient_of(place.slice);
    state.grad.copy_from(sum.values.view_at(place.begin, state.grad.shape()).to(state.grad.device()));
  }
}

void GradientTree::finish(Communicator& ranks, const std::vector<std::vector<std::vector<std::uint8_t>>>& present,
                          std::string_view what) {
  if (ranks.alone()) return put_back(nodes_.front());
  const int size = ranks.size(), self = ranks.rank();
  const auto at = [&](int rank) { return rank == size ? count_ : count_ * rank / size / kAlignment * kAlignment; };
  const auto bytes_in = [&](Tensor& values, std::int64_t begin, std::int64_t end) {
    return std::span(static_cast<std::byte*>(values.mutable_raw()) + begin * std::int64_t{sizeof(float)},
                     static_cast<std::size_t>(end - begin) * sizeof(float));
  };
  const std::int64_t begin = at(self), end = at(self + 1);
  for (Node& node : nodes_)
    if (node.values.defined()) node.values = node.values.on_host();

  // Every rank gets the nodes of all ranks for its part of the parameters.
  std::vector<Node> mine;
  std::vector<OutgoingPiece> outgoing;
  std::vector<IncomingPiece> incoming;
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<LeafRange> nodes = nodes_of(leaves_, share_of(leaves_, rank, size));
    const auto& has = present[static_cast<std::size_t>(rank)];
    check<RankError>(has.size() == nodes.size(), "ranks: rank {} has {} sums of gradients in {}, wanted {}", rank,
                     has.size(), what, nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Node& node = mine.emplace_back(Node{.leaves = nodes[i], .present = has[i]});
      if (std::ranges::count(has[i], 0) == std::ssize(has[i])) continue;
      if (rank != self) {
        node.values = Tensor::empty(Shape{end - begin});
        incoming.push_back({rank, bytes_in(node.values, 0, end - begin)});
        continue;
      }
      node.values = nodes_[i].values.view_at(begin, Shape{end - begin}).clone();
      for (int to = 0; to < size; ++to)
        if (to != self) outgoing.push_back({to, bytes_in(nodes_[i].values, at(to), at(to + 1))});
    }
  }
  ranks.exchange(outgoing, incoming, what);
  nodes_.clear();
  Node part = complete(std::move(mine), begin, end);

  // Every rank gets the sums of all parts.
  Node sum{.present = part.present};
  if (part.values.defined()) {
    sum.values = Tensor::empty(Shape{count_});
    sum.values.view_at(begin, Shape{end - begin}).copy_from(part.values);
    outgoing.clear();
    incoming.clear();
    for (int rank = 0; rank < size; ++rank) {
      if (rank == self) continue;
      outgoing.push_back({rank, bytes_in(part.values, 0, end - begin)});
      incoming.push_back({rank, bytes_in(sum.values, at(rank), at(rank + 1))});
    }
    ranks.exchange(outgoing, incoming, what);
  }
  put_back(sum);
}

}  // namespace binade::amp
