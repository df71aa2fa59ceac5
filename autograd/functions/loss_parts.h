#pragma once

#include <initializer_list>
#include <optional>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/losses.h"
#include "binade/core/step_context.h"

/// Functions from which losses are composed.
namespace binade {
namespace detail {

/// Throws DTypeError unless x, a prediction, is floating.
void check_prediction(const char* name, const Variable& x);
/// Throws ShapeError unless a and b have the same shape, and DTypeError unless both are floating.
void check_same_shape(const char* name, const Variable& a, const Variable& b);
/// Throws DTypeError unless x is i64, i32 or u8. `what`: "targets".
void check_whole(const char* name, const char* what, const Variable& x);
/// Throws DTypeError or ShapeError unless x is floating and t has its shape.
void check_pair(const char* name, const Variable& x, const Variable& t);
/// Throws ShapeError unless t has the shape of x without its last axis, the classes.
void check_rows(const char* name, const Variable& x, const Variable& t);
/// Throws DTypeError unless the labels are whole numbers (check_whole()), and ShapeError unless they fit x
/// (check_rows()).
void check_labels(const char* name, const Variable& x, const Variable& labels);

/// Returns the mean or sum of the losses, or for Reduction::kNone the losses themselves.
Variable reduced(const Variable& losses, Reduction reduction);
/// Returns losses times a weight that broadcasts to them, or the losses if it is undefined. Throws ShapeError.
Variable weighted(const char* name, const Variable& losses, const Variable& weight);
/// Returns x where the condition holds, else 0.
Variable only_where(const Variable& condition, const Variable& x);

/// An input of a loss, with the name of its argument.
struct LossInput {
  const char* name;
  const Variable& value;
};

/// Sets the module path of a loss that is called outside modules to "loss".
class LossPath {
 public:
  LossPath() {
    if (step_context().module_path.empty()) scope_.emplace("loss");
  }
  /// For a loss that is composed of ops: also throws ArgumentError unless all inputs are defined.
  LossPath(const char* loss, std::initializer_list<LossInput> inputs);

 private:
  std::optional<ModulePathScope> scope_;
};

/// Class indices of rows, some of them ignored. `name` is the name of the loss, for error texts.
struct Labels {
  Variable kept;   ///< bool, the labels' shape: not ignored
  Variable index;  ///< i64: the label, or 0 if it is ignored
  explicit Labels(const Variable& labels, std::optional<std::int64_t> ignore_index = {});

  /// Returns x[…, index] of x (..., V), in the labels' shape. Throws DataError for an index outside [0, V).
  Variable chosen(const char* name, const Variable& x) const;
  /// Returns weight[index] for weights (V), or 1 if `weight` is undefined; 0 for ignored rows. Throws ShapeError.
  Variable weights(const char* name, const Variable& weight, std::int64_t classes, DType dtype) const;
};

}  // namespace detail
}  // namespace binade
