#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/op.h"

namespace binade {

class RecordedCall;
/// Computes the gradients of an op's inputs from those of its outputs as recorded functions (autograd/derivative.h).
using Derivative = std::vector<Variable> (*)(const RecordedCall& call);

/// The producer of an op's input: output number `output` of `node`, or a `leaf` that requires a gradient. If both are
/// null, the input gets no gradient. An edge to a node does not keep the node's output tensors alive.
struct Edge {
  std::shared_ptr<Node> node{};
  int output = 0;
  std::shared_ptr<Variable::State> leaf{};
};

/// A recorded op call. Owns the tensors that the op saved and the edges to the producers of its inputs. Chains of any
/// length are traversed and destroyed without recursion.
class Node {
 public:
  Node(const OpInfo& info, OpContext context, std::vector<Edge> edges, int outputs);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual void backward(std::span<const Tensor> gy, GradSink& gx) = 0;
  /// Returns the op's parameters, of type Op::Params; null if the node records no op unit.
  virtual const void* params() const { return nullptr; }
  /// Returns the op unit's own member `derivative`; null if it has none.
  virtual Derivative derivative() const { return nullptr; }
  /// False if the node records no op, so that observers are not notified of its backward.
  virtual bool observed() const { return true; }

  const OpInfo& info() const { return info_; }
  const std::string& module_path() const { return module_path_; }
  std::int64_t tape_index() const { return tape_index_; }
  std::uint64_t order() const {
    return order_;
  }  ///< larger than that of any node it depends on, or of any earlier node of the thread
  const std::vector<Edge>& edges() const { return edges_; }
  int outputs() const { return outputs_; }
  const OpContext& context() const { return context_; }
  bool released() const { return released_; }
  /// True if the results are weights: each input is a parameter, a weight, or a constant of one element. The gradient
  /// of a weight that a precision policy casts stays f32, like that of a parameter.
  bool computes_weights() const { return computes_weights_; }
  /// Throws AutogradError if the node was released.
  void check_not_released() const;
  /// Frees saved tensors and edges. A later backward through this node throws.
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
  bool computes_weights_;
};

}  // namespace binade
