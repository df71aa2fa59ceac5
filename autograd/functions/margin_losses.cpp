#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/functions/loss_parts.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/scan.h"
#include "binade/core/make.h"
#include "binade/core/ops/index.h"

/// Losses of distances and margins.
namespace binade {
namespace {

using derivatives::dims_of;
using derivatives::to_sum_dtype_of;
using derivatives::wide;
using detail::check_same_shape;
using detail::LossPath;
using detail::only_where;
using detail::reduced;

/// Returns x, expanded to `shape` if it has another one.
Variable expanded(const Variable& x, const Shape& shape) { return x.shape() == shape ? x : expand(x, dims_of(shape)); }

}  // namespace

Variable hinge_embedding(const Variable& input, const Variable& targets, double margin, Reduction reduction) {
  const LossPath path("hinge_embedding", {{"x", input}, {"targets", targets}});
  detail::check_pair("hinge_embedding", input, targets);
  const Variable x = wide(input);
  return reduced(only_where(targets != -1, x) + only_where(targets != 1, relu(margin - x)), reduction);
}

Variable margin_ranking(const Variable& a, const Variable& b, const Variable& targets, double margin,
                        Reduction reduction) {
  constexpr const char* kName = "margin_ranking";
  const LossPath path(kName, {{"a", a}, {"b", b}, {"targets", targets}});
  detail::check_prediction(kName, a);
  detail::check_prediction(kName, b);
  const int rank = a.value().rank();
  check<ShapeError>(b.value().rank() == rank && targets.value().rank() == rank,
                    "{}: wanted a, b and targets of as many dimensions, got {}, {} and {}", where(kName), a.shape(),
                    b.shape(), targets.shape());
  broadcast(broadcast(a.shape(), b.shape(), kName), targets.shape(), kName);
  const Variable difference = wide(b) - wide(a);
  return reduced(relu(to_sum_dtype_of(targets, difference) * difference + margin), reduction);
}

Variable soft_margin(const Variable& x, const Variable& targets, Reduction reduction) {
  const LossPath path("soft_margin", {{"x", x}, {"targets", targets}});
  detail::check_pair("soft_margin", x, targets);
  return reduced(softplus(-(to_sum_dtype_of(targets, x) * wide(x))), reduction);
}

Variable multi_margin(const Variable& input, const Variable& targets, const MultiMarginOptions& options,
                      const Variable& weight) {
  constexpr const char* kName = "multi_margin";
  const LossPath path(kName, {{"x", input}, {"targets", targets}});
  detail::check_labels(kName, input, targets);
  check<ArgumentError>(options.p == 1 || options.p == 2, "{}: wanted p of 1 or 2, got {}", where(kName), options.p);
  const Variable x = wide(input);
  const std::int64_t classes = x.shape().cols();
  check<ShapeError>(classes > 0, "{}: wanted one class or more, got {}", where(kName), x.shape());
  const detail::Labels labels(targets);
  const Variable beyond = relu(x - unsqueeze(labels.chosen(kName, x), -1) + options.margin);
  const Variable others = only_where(unsqueeze(labels.index, -1) !=
                                         arange(std::int64_t{0}, classes, std::int64_t{1}, DType::i64, x.device()),
                                     options.p == 1 ? beyond : square(beyond));
  Variable losses = sum(others, {-1}) / static_cast<double>(classes);
  if (weight.defined()) losses = losses * labels.weights(kName, weight, classes, x.dtype());
  return reduced(losses, options.reduction);
}

Variable multilabel_margin(const Variable& input, const Variable& targets, Reduction reduction) {
  constexpr const char* kName = "multilabel_margin";
  const LossPath path(kName, {{"x", input}, {"targets", targets}});
  detail::check_pair(kName, input, targets);
  check<DTypeError>(targets.dtype() == DType::i64 || targets.dtype() == DType::i32,
                    "{}: wanted i64 or i32 targets, got {}", where(kName), name_of(targets.dtype()));
  check<ShapeError>(input.value().rank() >= 1, "{}: wanted predictions (..., V), got {}", where(kName), input.shape());
  const Variable x = wide(input), list = cast(targets, DType::i64);
  const Variable listed = cumsum(list == -1, -1) == 0;  // before the first -1
  const Variable index = list * cast(listed, DType::i64);
  const Variable own = apply_one<ops::Gather>({.axis = -1, .name = kName}, {x, index});
  // How often each class is listed.
  const Variable zeros = Tensor::zeros(x.shape(), x.dtype(), x.device());
  const Variable times = apply_one<ops::Scatter>({.axis = -1, .how = Scattering::kAdd, .name = kName},
                                                 {zeros, index, cast(listed, x.dtype())});
  // (..., listed classes, all classes)
  const Variable beyond = relu(unsqueeze(x, -2) - unsqueeze(own, -1) + 1.0);
  const Variable counts = logical_and(unsqueeze(listed, -1), unsqueeze(times, -2) == 0);
  return reduced(sum(only_where(counts, beyond), {-2, -1}) / static_cast<double>(x.shape().cols()), reduction);
}

Variable multilabel_soft_margin(const Variable& x, const Variable& targets, Reduction reduction,
                                const Variable& weight) {
  constexpr const char* kName = "multilabel_soft_margin";
  const LossPath path(kName, {{"x", x}, {"targets", targets}});
  detail::check_pair(kName, x, targets);
  check<ShapeError>(x.value().rank() >= 1, "{}: wanted predictions (..., V), got {}", where(kName), x.shape());
  const Variable losses = bce_with_logits(x, targets, {.reduction = Reduction::kNone});
  return reduced(mean(detail::weighted(kName, losses, weight), {-1}), reduction);
}

/// 1e-12 is added to the squares of the norms, as in PyTorch, so that rows of zeros have a gradient.
Variable cosine_embedding(const Variable& first, const Variable& second, const Variable& targets, double margin,
                          Reduction reduction) {
  constexpr const char* kName = "cosine_embedding";
  const LossPath path(kName, {{"a", first}, {"b", second}, {"targets", targets}});
  check_same_shape(kName, first, second);
  detail::check_rows(kName, first, targets);
  const Variable a = wide(first), b = wide(second);
  const auto length = [](const Variable& x) { return sqrt(sum(square(x), {-1}) + 1e-12); };
  const Variable cosine = sum(a * b, {-1}) / (length(a) * length(b));
  return reduced(only_where(targets == 1, 1 - cosine) + only_where(targets == -1, relu(cosine - margin)), reduction);
}

Variable triplet_margin(const Variable& anchor, const Variable& positive, const Variable& negative,
                        const TripletMarginOptions& options) {
  constexpr const char* kName = "triplet_margin";
  const LossPath path(kName, {{"anchor", anchor}, {"positive", positive}, {"negative", negative}});
  check_same_shape(kName, anchor, positive);
  check_same_shape(kName, anchor, negative);
  return triplet_margin_with_distance(anchor, positive, negative,
                                      [&](const Variable& a, const Variable& b) {
                                        return pairwise_distance(a, b, options.p, options.eps);
                                      },
                                      {.margin = options.margin, .swap = options.swap, .reduction = options.reduction});
}

Variable triplet_margin_with_distance(const Variable& anchor, const Variable& positive, const Variable& negative,
                                      const std::function<Variable(const Variable&, const Variable&)>& distance,
                                      const TripletOptions& options) {
  const LossPath path("triplet_margin_with_distance",
                      {{"anchor", anchor}, {"positive", positive}, {"negative", negative}});
  check<ArgumentError>(distance != nullptr, "{}: wanted a distance, got an empty function",
                       where("triplet_margin_with_distance"));
  const Variable near = distance(anchor, positive);
  Variable far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  return reduced(relu(near - far + options.margin), options.reduction);
}

Variable pairwise_distance(const Variable& a, const Variable& b, double p, double eps, bool keepdim) {
  detail::check_prediction("pairwise_distance", a);
  detail::check_prediction("pairwise_distance", b);
  return norm(wide(a) - wide(b) + eps, p, -1, keepdim);
}

Variable cosine_similarity(const Variable& first, const Variable& second, int axis, double eps) {
  constexpr const char* kName = "cosine_similarity";
  detail::check_prediction(kName, first);
  detail::check_prediction(kName, second);
  const Shape shape = broadcast(first.shape(), second.shape(), kName);
  const Variable a = expanded(wide(first), shape), b = expanded(wide(second), shape);
  const auto direction = [&](const Variable& x) { return x / clamp(norm(x, 2, axis, true), eps, HUGE_VAL); };
  return sum(direction(a) * direction(b), axis);
}

}  // namespace binade
