#include "binade/autograd/functions/loss_parts.h"

#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/index.h"

namespace binade::detail {

using derivatives::dims_of;
using derivatives::to_sum_dtype_of;
using derivatives::wide;

void check_prediction(const char* name, const Variable& x) {
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating prediction, got {}", where(name),
                    name_of(x.dtype()));
}

void check_same_shape(const char* name, const Variable& a, const Variable& b) {
  check_prediction(name, a);
  check_prediction(name, b);
  check<ShapeError>(a.shape() == b.shape(), "{}: wanted inputs of one shape, got {} and {}", where(name), a.shape(),
                    b.shape());
}

void check_whole(const char* name, const char* what, const Variable& x) {
  const DType dtype = x.dtype();
  check<DTypeError>(dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8,
                    "{}: wanted i64, i32 or u8 {}, got {}", where(name), what, name_of(dtype));
}

void check_pair(const char* name, const Variable& x, const Variable& t) {
  check_prediction(name, x);
  check<ShapeError>(x.shape() == t.shape(), "{}: wanted a target of the prediction's shape {}, got {}", where(name),
                    x.shape(), t.shape());
}

void check_rows(const char* name, const Variable& x, const Variable& t) {
  const auto dims = x.shape().dims();
  check<ShapeError>(!dims.empty() && t.shape() == Shape(dims.first(dims.size() - 1)),
                    "{}: wanted predictions (..., V) and targets (...), got {} and {}", where(name), x.shape(),
                    t.shape());
}

void check_labels(const char* name, const Variable& x, const Variable& labels) {
  check_prediction(name, x);
  check_whole(name, "targets", labels);
  check_rows(name, x, labels);
}

Variable reduced(const Variable& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone: return losses;
    case Reduction::kMean: return mean(losses);
    case Reduction::kSum: return sum(losses);
    case Reduction::kBatchMean: break;
  }
  return sum(losses) / ops::detail::divisor_of(reduction, losses.shape());
}

Variable weighted(const char* name, const Variable& losses, const Variable& weight) {
  if (!weight.defined()) return losses;
  check<DTypeError>(is_floating(weight.dtype()), "{}: wanted a floating weight, got {}", where(name),
                    name_of(weight.dtype()));
  check<ShapeError>(broadcast(losses.shape(), weight.shape(), name) == losses.shape(),
                    "{}: wanted a weight that broadcasts to {}, got {}", where(name), losses.shape(), weight.shape());
  return losses * to_sum_dtype_of(weight, losses);
}

Variable only_where(const Variable& condition, const Variable& x) {
  return where(condition, x, Variable(Tensor::zeros(Shape{}, x.dtype(), x.device())));
}

LossPath::LossPath(const char* loss, std::initializer_list<LossInput> inputs) : LossPath() {
  for (const LossInput& x : inputs)
    check<ArgumentError>(x.value.defined(), "{}: wanted {}, got an undefined variable; assign it first", where(loss),
                         x.name);
}

Labels::Labels(const Variable& labels, std::optional<std::int64_t> ignore_index)
    : kept(ignore_index ? labels != *ignore_index : labels == labels),
      index(cast(labels, DType::i64) * cast(kept, DType::i64)) {}

Variable Labels::chosen(const char* name, const Variable& x) const {
  return reshape(apply_one<ops::Gather>({.axis = -1, .name = name}, {x, unsqueeze(index, -1)}), dims_of(index.shape()));
}

Variable Labels::weights(const char* name, const Variable& weight, std::int64_t classes, DType dtype) const {
  if (!weight.defined()) return cast(kept, dtype);
  check<DTypeError>(is_floating(weight.dtype()), "{}: wanted a floating weight, got {}", where(name),
                    name_of(weight.dtype()));
  check<ShapeError>(weight.shape() == Shape{classes}, "{}: wanted one weight for each of {} classes, got {}",
                    where(name), classes, weight.shape());
  const Variable flat = reshape(index, {index.value().numel()});
  const Variable rows = apply_one<ops::IndexSelect>({.axis = 0, .name = name}, {cast(weight, dtype), flat});
  return only_where(kept, reshape(rows, dims_of(index.shape())));
}

}  // namespace binade::detail
