#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/functions/loss_parts.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/core/ops/ctc.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/index.h"

/// Losses of regions and sequences.
namespace binade {
namespace {

using derivatives::to_sum_dtype_of;
using derivatives::wide;
using detail::LossPath;
using detail::only_where;
using detail::reduced;

/// Returns targets (sum of lengths) as (N, S), padded with 0; S is the largest length.
Tensor padded(const Tensor& targets, const Tensor& lengths) {
  const auto labels = targets.to(DType::i64).to_vector<std::int64_t>();
  const auto counts = lengths.to(DType::i64).to_vector<std::int64_t>();
  std::int64_t width = 0, total = 0;
  const auto all = static_cast<std::int64_t>(labels.size());
  for (const std::int64_t n : counts) {
    check<DataError>(n >= 0 && n <= all - total,
                     "{}: wanted target lengths that add up to the {} targets, got {} after {}", where("ctc"), all, n,
                     total);
    total += n;
    width = std::max(width, n);
  }
  check<DataError>(total == all, "{}: wanted target lengths that add up to the {} targets, got {}", where("ctc"), all,
                   total);
  Tensor rows = Tensor::zeros(Shape{static_cast<std::int64_t>(counts.size()), width}, DType::i64);
  const std::int64_t* from = labels.data();
  std::int64_t* to = rows.mutable_data<std::int64_t>();
  for (const std::int64_t n : counts) {
    std::copy_n(from, n, to);
    from += n;
    to += width;
  }
  return rows.to(targets.device());
}

}  // namespace

Variable dice(const Variable& probabilities, const Variable& targets, double smooth) {
  const LossPath path;
  return apply_one<ops::Dice>({smooth}, {probabilities, targets});
}

Variable tversky(const Variable& probabilities, const Variable& targets, const TverskyOptions& options) {
  const LossPath path("tversky", {{"probabilities", probabilities}, {"targets", targets}});
  detail::check_pair("tversky", probabilities, targets);
  check<ArgumentError>(options.alpha >= 0 && options.beta >= 0 && options.smooth >= 0,
                       "{}: wanted alpha, beta and smooth of at least 0, got {}, {} and {}", where("tversky"),
                       options.alpha, options.beta, options.smooth);
  const Variable p = wide(probabilities), t = to_sum_dtype_of(targets, p);
  const Variable hits = sum(p * t);
  const Variable false_positives = sum(p * (1 - t)), false_negatives = sum((1 - p) * t);
  const Variable all = hits + false_positives * options.alpha + false_negatives * options.beta;
  return 1 - (hits + options.smooth) / (all + options.smooth);
}

Variable multiclass_dice(const Variable& logits, const Variable& targets, const MulticlassDiceOptions& options) {
  constexpr const char* kName = "multiclass_dice";
  const LossPath path(kName, {{"logits", logits}, {"targets", targets}});
  detail::check_labels(kName, logits, targets);
  check<ArgumentError>(options.smooth >= 0, "{}: wanted smooth >= 0, got {}", where(kName), options.smooth);
  const std::int64_t classes = logits.shape().cols(), rows = targets.value().numel();
  check<ArgumentError>(classes > (options.include_background ? 0 : 1), "{}: wanted {} classes or more, got {}",
                       where(kName), options.include_background ? 1 : 2, classes);
  const detail::Labels labels(reshape(targets, {rows}), options.ignore_index);
  const Variable kept = unsqueeze(labels.kept, -1), index = unsqueeze(labels.index, -1);
  const Variable x = only_where(kept, reshape(wide(logits), {rows, classes}));  // an ignored row may contain NaN
  const Variable p = only_where(kept, softmax(x));
  const Variable zeros = Tensor::zeros(p.shape(), p.dtype(), p.device());
  const Variable ones = Tensor::full(index.shape(), 1, p.dtype(), p.device());
  const Variable marks = apply_one<ops::Scatter>({.axis = 1, .how = Scattering::kAssign, .name = kName},
                                                 {zeros, index, ones});
  const Variable t = only_where(kept, marks);
  const Variable overlap = sum(p * t, 0) * 2.0 + options.smooth;
  Variable losses = 1 - overlap / (sum(p, 0) + sum(t, 0) + options.smooth);
  if (!options.include_background) losses = narrow(losses, 0, 1, classes - 1);
  return reduced(losses, options.reduction);
}

Variable dice_cross_entropy(const Variable& logits, const Variable& targets, const DiceCrossEntropyOptions& options,
                            const Variable& weight) {
  const LossPath path("dice_cross_entropy", {{"logits", logits}, {"targets", targets}});
  const Variable overlap = multiclass_dice(logits, targets,
                                           {.smooth = options.smooth,
                                            .include_background = options.include_background,
                                            .ignore_index = options.ignore_index});
  const Variable entropy = cross_entropy(
      logits, targets, {.ignore_index = options.ignore_index, .label_smoothing = options.label_smoothing}, weight);
  return overlap * options.dice_weight + entropy * options.cross_entropy_weight;
}

Variable ctc(const Variable& log_probabilities, const Variable& targets, const Variable& input_lengths,
             const Variable& target_lengths, const CtcOptions& options) {
  constexpr const char* kName = "ctc";
  const LossPath path(kName, {{"log_probabilities", log_probabilities},
                              {"targets", targets},
                              {"input_lengths", input_lengths},
                              {"target_lengths", target_lengths}});
  detail::check_whole(kName, "targets", targets);
  detail::check_whole(kName, "target_lengths", target_lengths);
  const bool one = log_probabilities.value().rank() == 2;
  const auto with_axis = [&](const Variable& v, int axis) { return one ? unsqueeze(v, axis) : v; };
  Variable labels = targets;
  if (one)
    labels = with_axis(targets, 0);
  else if (targets.value().rank() == 1)
    labels = padded(targets.value(), target_lengths.value());
  Variable losses = apply_one<ops::Ctc>({options.blank, options.zero_infinity},
                                        {with_axis(log_probabilities, 1), labels, with_axis(input_lengths, 0),
                                         with_axis(target_lengths, 0)});
  if (options.reduction == Reduction::kMean)
    return mean(losses / clamp(cast(with_axis(target_lengths, 0), losses.dtype()), 1, HUGE_VAL));
  if (one) losses = reshape(losses, {});
  return reduced(losses, options.reduction);
}

}  // namespace binade
