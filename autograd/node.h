#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/op.h"

namespace binade {

/// Where an input came from: output `output` of `node`, or a leaf that wants a gradient. Neither: no gradient flows.
/// An edge keeps no value alive.
struct Edge {
  std::shared_ptr<Node> node{};
  int output = 0;
  std::shared_ptr<Variable::State> leaf{};
};

/// One recorded op call. Owns exactly what the op saved, and edges to what made its inputs. Chains of any length are
/// traversed and released by loops, never by recursion.
class Node {
 public:
  Node(const OpInfo& info, OpContext context, std::vector<Edge> edges, int outputs);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual void backward(std::span<const Tensor> gy, GradSink& gx) = 0;

  const OpInfo& info() const { return info_; }
  const std::string& module_path() const { return module_path_; }
  std::int64_t tape_index() const { return tape_index_; }
  std::uint64_t order() const { return order_; }  ///< strictly rising over the thread's life: the order of the tape
  const std::vector<Edge>& edges() const { return edges_; }
  int outputs() const { return outputs_; }
  const OpContext& context() const { return context_; }
  bool released() const { return released_; }
  /// Drops saved tensors and edges; a later backward through here throws.
  void release();

 protected:
  OpContext context_;

 private:
  const OpInfo& info_;
  std::string module_path_;
  std::int64_t tape_index_;
  std::uint64_t order_;
  std::vector<Edge> edges_;
  int outputs_;
  bool released_ = false;
};

}  // namespace binade
