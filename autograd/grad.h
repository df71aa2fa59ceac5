#pragma once

#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

struct GradOptions {
  /// Gradients of the outputs to start with, one for each output and of its shape; the gradient can depend on them too.
  /// Empty: 1 for each output, which must then have one element
  std::vector<Variable> grad_outputs{};
  /// True: the gradients are recorded, so that they can be differentiated again
  bool create_graph = false;
  /// True: the tape of the outputs is kept for a later backward() or grad(). create_graph always keeps it
  bool retain_graph = false;
  /// True: the gradient of an input that no output depends on is an undefined Variable; false: an error
  bool allow_unused = false;
};

/// Returns the gradients of the outputs with respect to the inputs, as torch.autograd.grad does. If there are several
/// outputs, the gradients of their sum. Neither reads nor changes the gradients that leaves store (Variable::grad).
///
///   const Variable slope = grad(critic(x), x, {.grad_outputs = {ones}, .create_graph = true});
///   backward(loss + penalty(slope));
///
/// Inputs may be leaves or results of recorded ops. A gradient has the dtype of its input, that of a parameter f32.
/// With create_graph, the gradients are computed by recorded functions (docs/second-derivatives.md), whose products
/// obey the precision policy of this thread and whose sums are f32; without it, by the backward of each op.
///
/// Throws AutogradError if an output has no history, an input requires no gradient or is unused, the tape was released,
/// an op between them is recompute(), or, with create_graph, has no derivative; ShapeError if grad_outputs do not fit.
std::vector<Variable> grad(const std::vector<Variable>& outputs, const std::vector<Variable>& inputs,
                           const GradOptions& options = {});
std::vector<Variable> grad(const Variable& output, const std::vector<Variable>& inputs,
                           const GradOptions& options = {});
Variable grad(const Variable& output, const Variable& input, const GradOptions& options = {});

}  // namespace binade
