#pragma once

#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

struct GradOptions {
  /// Gradients of the outputs to start with, one for each output and of its shape. With create_graph, the result can
  /// be differentiated by them too. Empty: 1 for each output, which must then have one element
  std::vector<Variable> grad_outputs{};
  /// True: the gradients are recorded, so that they can be differentiated again
  bool create_graph = false;
  /// True: the tape of the outputs is kept for a later backward() or grad(). create_graph always keeps it
  bool retain_graph = false;
  /// True: the gradient of an input that no output depends on is an undefined Variable; false: an error
  bool allow_unused = false;
};

/// Returns the gradients of the outputs, or of the sum of several outputs, with respect to the inputs. Corresponds to
/// torch.autograd.grad. Neither reads nor changes the gradients that leaves store (Variable::grad).
///
///   const Variable slope = grad(critic(x), x, {.grad_outputs = {ones}, .create_graph = true});
///   backward(loss + penalty(slope));
///
/// Inputs may be leaves or results of recorded ops. A gradient has the dtype of its input; the gradient of a parameter
/// is f32. With create_graph, recorded functions compute the gradients (docs/second-derivatives.md): their products
/// obey the precision policy of this thread, and their sums are f32. Without it, the backward of each op computes them.
///
/// Throws AutogradError if an output has no history, if an input requires no gradient or is unused, if the tape was
/// released, if recompute() lies on a path from an output to an input, or if an op has no derivative (with create_graph
/// only). Throws ShapeError if the shapes of grad_outputs differ from those of the outputs.
std::vector<Variable> grad(const std::vector<Variable>& outputs, const std::vector<Variable>& inputs,
                           const GradOptions& options = {});
std::vector<Variable> grad(const Variable& output, const std::vector<Variable>& inputs,
                           const GradOptions& options = {});
Variable grad(const Variable& output, const Variable& input, const GradOptions& options = {});

}  // namespace binade
