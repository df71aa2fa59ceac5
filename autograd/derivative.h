#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/autograd/node.h"
#include "binade/autograd/variable.h"

namespace binade {

using Variables = std::vector<Variable>;

/// A recorded op call, from which a *derivative* computes the gradients of the op's inputs as recorded functions, so
/// that they can be differentiated again. Derivatives of Binade's ops are in autograd/derivatives/. An op unit of your
/// own has one if it has the member
///
///   static Variables derivative(const RecordedCall& call) {         // y = a b, which forward saved in this order
///     const Variable a = call.input(0, 0), b = call.input(1, 1);
///     return {call.gy() * b, call.gy() * a};
///   }
///
/// The result has one gradient for each input, in the input's shape and any floating dtype. A gradient that is not
/// needed (needs()) or is 0 may be undefined. Ops that the derivative calls get the module path of the recorded call.
class RecordedCall {
 public:
  RecordedCall(std::shared_ptr<Node> node, Variables gy, std::vector<bool> needed)
      : node_(std::move(node)), gy_(std::move(gy)), needed_(std::move(needed)) {}

  bool needs(int i) const { return needed_.at(static_cast<std::size_t>(i)); }
  /// Returns the gradient of an output; undefined if nothing depends on that output.
  const Variable& gy(int output = 0) const { return gy_.at(static_cast<std::size_t>(output)); }
  const OpContext& context() const { return node_->context(); }
  /// Returns shape, dtype and device of input i.
  const OpContext::Input& described(int i) const { return context().inputs.at(static_cast<std::size_t>(i)); }
  template <class Op>
  const typename Op::Params& params() const {
    return *static_cast<const typename Op::Params*>(node_->params());
  }

  /// Returns the tensor that forward saved at `position`. Throws AutogradError if it was written in place since.
  const Tensor& saved(int position) const { return context().saved(position, node_->info().name); }
  /// Returns input i, which forward saved at `position`, with its history. Throws AutogradError if it has changed
  /// since.
  Variable input(int i, int position) const;
  /// Returns output i, which forward saved at `position`, with this call as its history.
  Variable output(int i, int position) const;
  /// Returns `value`, an intermediate result of the op, as a variable whose history is output `output` of `maker`.
  static Variable linked(Tensor value, std::shared_ptr<Node> maker, int output = 0);

  const Node& node() const { return *node_; }
  /// Returns the gradients that the op's own backward computes from `gy`, as constants.
  Tensors backward_of(const Tensors& gy) const;
  /// Throws AutogradError: the op has no derivative. `advice` tells the user what to do.
  [[noreturn]] void refuse(std::string_view advice) const { refuse(*node_, advice); }
  [[noreturn]] static void refuse(const Node& node, std::string_view advice);

 private:
  std::shared_ptr<Node> node_;
  Variables gy_;
  std::vector<bool> needed_;
};

}  // namespace binade
