#include "binade/autograd/functions/losses.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/functions/loss_parts.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/unary.h"

namespace binade {
namespace {

using derivatives::to_sum_dtype_of;
using derivatives::wide;
using detail::LossPath;
using detail::only_where;
using detail::reduced;
using detail::weighted;

template <class Op>
Variable loss(const typename Op::Params& params, const Variable& x, const Variable& targets) {
  const LossPath path;
  return apply_one<Op>(params, {x, targets});
}

/// Returns the 16-bit dtype to which the output of a sigmoid was rounded if x is that output, possibly cast afterwards.
std::optional<DType> dtype_of_rounded_sigmoid(const Variable& x) {
  std::optional<DType> rounded;
  std::shared_ptr<Node> node = x.defined() ? x.state()->node : nullptr;
  DType dtype = node ? x.dtype() : DType::f32;
  while (node) {
    if (is_half(dtype)) rounded = dtype;
    if (&node->info() == &ops::Sigmoid::info) return rounded;
    if (&node->info() != &ops::Cast::info || node->edges().empty()) break;
    dtype = node->context().inputs[0].dtype;
    node = node->edges()[0].node;
  }
  return {};
}

constexpr const char* kCrossEntropy = ops::CrossEntropy::info.name;

/// Throws ArgumentError, as the op does.
void check_smoothing(double smoothing) {
  check<ArgumentError>(smoothing >= 0 && smoothing <= 1, "{}: wanted 0 <= label_smoothing <= 1, got {}",
                       where(kCrossEntropy), smoothing);
}

/// Cross entropy with targets that are probabilities.
Variable soft_cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& o,
                            const Variable& weight) {
  detail::check_prediction(kCrossEntropy, logits);
  check<ShapeError>(
      logits.value().rank() > 0 && targets.shape() == logits.shape(),
      "{}: wanted targets that are class indices (i64, i32 or u8) or probabilities of the logits' shape {}, "
      "got {} {}",
      where(kCrossEntropy), logits.shape(), name_of(targets.dtype()), targets.shape());
  check_smoothing(o.label_smoothing);
  check<ArgumentError>(
      o.ignore_index < 0,
      "{}: wanted no ignore_index with targets that are probabilities, got {}; use Reduction::kNone and "
      "leave rows out",
      where(kCrossEntropy), o.ignore_index);
  const std::int64_t classes = logits.shape().cols();
  check<ShapeError>(!weight.defined() || weight.shape() == Shape{classes},
                    "{}: wanted one weight for each of {} classes, got {}", where(kCrossEntropy), classes,
                    weight.defined() ? weight.shape() : Shape{});
  Variable shares = to_sum_dtype_of(targets, logits);
  if (o.label_smoothing > 0)
    shares = shares * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(classes);
  return reduced(-sum(weighted(kCrossEntropy, log_softmax(logits) * shares, weight), {-1}), o.reduction);
}

/// Cross entropy with class indices and weights of the classes.
Variable weighted_cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& o,
                                const Variable& weight) {
  check_smoothing(o.label_smoothing);
  const Variable rows = apply_one<ops::CrossEntropy>({.ignore_index = o.ignore_index, .reduction = Reduction::kNone},
                                                     {logits, targets});
  const detail::Labels labels(targets, o.ignore_index);
  const std::int64_t classes = logits.shape().cols();
  const Variable weights = labels.weights(kCrossEntropy, weight, classes, rows.dtype());
  Variable losses = rows * weights;
  if (o.label_smoothing > 0) {
    const Variable x = only_where(unsqueeze(labels.kept, -1), wide(logits));  // an ignored row may contain NaN
    const Variable spread = -sum(log_softmax(x) * to_sum_dtype_of(weight, x), {-1}) / static_cast<double>(classes);
    losses = losses * (1 - o.label_smoothing) + only_where(labels.kept, spread) * o.label_smoothing;
  }
  return o.reduction == Reduction::kMean ? sum(losses) / sum(weights) : reduced(losses, o.reduction);
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& options,
                       const Variable& weight) {
  const LossPath path(kCrossEntropy, {{"logits", logits}, {"targets", targets}});
  if (is_floating(targets.dtype())) return soft_cross_entropy(logits, targets, options, weight);
  if (weight.defined()) return weighted_cross_entropy(logits, targets, options, weight);
  return apply_one<ops::CrossEntropy>(options, {logits, targets});
}

Variable nll(const Variable& log_probabilities, const Variable& targets, const NllOptions& options,
             const Variable& weight) {
  const LossPath path("nll", {{"log_probabilities", log_probabilities}, {"targets", targets}});
  detail::check_labels("nll", log_probabilities, targets);
  const Variable x = wide(log_probabilities);
  const detail::Labels labels(targets, options.ignore_index);
  const Variable weights = labels.weights("nll", weight, x.shape().cols(), x.dtype());
  const Variable losses = only_where(labels.kept, -labels.chosen("nll", x) * weights);
  return options.reduction == Reduction::kMean ? sum(losses) / sum(weights) : reduced(losses, options.reduction);
}

Variable bce_with_logits(const Variable& logits, const Variable& targets, const ops::BceWithLogits::Params& options,
                         const BceWeights& weights) {
  constexpr const char* kName = ops::BceWithLogits::info.name;
  if (!weights.weight.defined() && !weights.pos_weight.defined())
    return loss<ops::BceWithLogits>(options, logits, targets);
  const LossPath path(kName, {{"logits", logits}, {"targets", targets}});
  detail::check_pair(kName, logits, targets);
  Variable losses;
  if (weights.pos_weight.defined()) {
    check<ArgumentError>(options.pos_weight == 1, "{}: wanted one pos_weight, got a tensor and the number {}",
                         where(kName), options.pos_weight);
    const Variable x = wide(logits), t = to_sum_dtype_of(targets, x);
    losses = (1 - t) * softplus(x) + weighted(kName, t * softplus(-x), weights.pos_weight);
  } else {
    losses = apply_one<ops::BceWithLogits>({options.pos_weight, Reduction::kNone}, {logits, targets});
  }
  return reduced(weighted(kName, losses, weights.weight), options.reduction);
}

Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction, const Variable& weight) {
  const LossPath path;
  const std::optional<DType> rounded = dtype_of_rounded_sigmoid(probabilities);
  check<ArgumentError>(!rounded,
                       "{}: wanted probabilities that keep their distance from 0 and 1, got the output of a sigmoid, "
                       "rounded to {}; call bce_with_logits on the sigmoid's input instead",
                       where("bce"), name_of(rounded.value_or(DType::f16)));
  if (!weight.defined()) return apply_one<ops::Bce>({reduction}, {probabilities, targets});
  return reduced(weighted("bce", apply_one<ops::Bce>({Reduction::kNone}, {probabilities, targets}), weight), reduction);
}

/// 1 - q is computed without cancellation, as the probability of the other class. It is clamped to a value above 0,
/// because a power below 1 has an infinite derivative at 0.
Variable focal(const Variable& logits, const Variable& targets, const FocalOptions& options) {
  const LossPath path("focal", {{"logits", logits}, {"targets", targets}});
  detail::check_pair("focal", logits, targets);
  check<ArgumentError>(options.gamma >= 0 && options.gamma < HUGE_VAL && options.alpha <= 1,
                       "{}: wanted a finite gamma >= 0 and alpha <= 1, got {} and {}", where("focal"), options.gamma,
                       options.alpha);
  const Variable x = wide(logits), t = to_sum_dtype_of(targets, x);
  const Variable missed = clamp(sigmoid(x) * (1 - t) + sigmoid(-x) * t, std::numeric_limits<float>::min(), HUGE_VAL);
  Variable losses = apply_one<ops::BceWithLogits>({.reduction = Reduction::kNone}, {x, t}) * pow(missed, options.gamma);
  if (options.alpha >= 0) losses = losses * (t * options.alpha + (1 - t) * (1 - options.alpha));
  return reduced(losses, options.reduction);
}

Variable mse(const Variable& x, const Variable& targets, Reduction reduction) {
  return loss<ops::Mse>({reduction}, x, targets);
}

Variable l1(const Variable& x, const Variable& targets, Reduction reduction) {
  return loss<ops::L1>({reduction}, x, targets);
}

Variable huber(const Variable& x, const Variable& targets, double delta, Reduction reduction) {
  return loss<ops::Huber>({delta, reduction}, x, targets);
}

Variable smooth_l1(const Variable& x, const Variable& targets, double beta, Reduction reduction) {
  const LossPath path("smooth_l1", {{"x", x}, {"targets", targets}});
  detail::check_pair("smooth_l1", x, targets);
  check<ArgumentError>(beta >= 0, "{}: wanted beta >= 0, got {}", where("smooth_l1"), beta);
  return beta < std::numeric_limits<float>::min() ? l1(x, targets, reduction)
                                                  : huber(x, targets, beta, reduction) / beta;
}

Variable kl_div(const Variable& log_probabilities, const Variable& targets, Reduction reduction) {
  return loss<ops::KlDiv>({reduction}, log_probabilities, targets);
}

Variable poisson_nll(const Variable& input, const Variable& targets, const PoissonNllOptions& options) {
  const LossPath path("poisson_nll", {{"x", input}, {"targets", targets}});
  detail::check_pair("poisson_nll", input, targets);
  const Variable x = wide(input), t = to_sum_dtype_of(targets, x);
  Variable losses = options.log_input ? exp(x) - t * x : x - t * log(x + options.eps);
  if (options.full) {
    const Variable above = clamp(t, 1, HUGE_VAL);  // so that logarithms of unselected elements are finite
    losses = losses + only_where(t > 1, above * log(above) - above + 0.5 * log(above * (2 * std::numbers::pi)));
  }
  return reduced(losses, options.reduction);
}

Variable gaussian_nll(const Variable& input, const Variable& targets, const Variable& variance,
                      const GaussianNllOptions& options) {
  constexpr const char* kName = "gaussian_nll";
  const LossPath path(kName, {{"x", input}, {"targets", targets}, {"variance", variance}});
  detail::check_pair(kName, input, targets);
  check<ArgumentError>(options.eps > 0, "{}: wanted eps > 0, got {}", where(kName), options.eps);
  const Variable x = wide(input), t = to_sum_dtype_of(targets, x);
  Variable v = to_sum_dtype_of(variance, x);
  const auto dims = x.shape().dims();
  if (!dims.empty() && v.shape() == Shape(dims.first(dims.size() - 1)))
    v = derivatives::shaped(v, x.shape().with_dim(x.shape().rank() - 1, 1));
  check<ShapeError>(broadcast(x.shape(), v.shape(), kName) == x.shape(),
                    "{}: wanted a variance that broadcasts to {}, got {}", where(kName), x.shape(), v.shape());
  const Variable negative = v < 0;
  check<DataError>(v.device() != Device::cpu() || any(negative).item() == 0,
                   "{}: wanted variances of at least 0, got a negative one; predict its logarithm, or apply softplus",
                   where(kName));
  // v - v.detach() is 0 with the derivative 1: small variances get a gradient too.
  const Variable least = where(v < options.eps, v - v.detach() + options.eps, v);
  const Variable safe = where(negative, Variable(Tensor::full(Shape{}, std::nan(""), v.dtype(), v.device())), least);
  Variable losses = 0.5 * (log(safe) + square(x - t) / safe);
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, options.reduction);
}

}  // namespace binade
