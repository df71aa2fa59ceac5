#pragma once

#include <cstdint>
#include <functional>

#include "binade/autograd/variable.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/element_losses.h"

/// Losses of elements, rows of classes or samples, reduced to one number or not reduced (Reduction). Inputs have any
/// floating dtype; losses are computed and returned in f32 (f64 if a prediction is f64), whatever the dtype of
/// targets and weights, under every precision policy. A policy's override of an op also holds for the losses that are
/// composed of it. A loss that is called outside modules gets the module path "loss". Weights come last; a weight of 0
/// does not hide an infinite or NaN loss.
///
/// Formulas of the ops: core/ops/cross_entropy.h, core/ops/dice.h, core/ops/element_losses.h, core/ops/ctc.h. The other
/// losses are composed of ops. Gradients of all but Dice and CTC can be differentiated again. Functions throw
/// ShapeError, DTypeError and ArgumentError with their name, and DataError for labels that are no class.
namespace binade {

using ops::Reduction;

/// Cross entropy of `logits` (..., V). `targets` are class indices (...) in [0, V) or ignore_index, or, if they are
/// floating, probabilities (..., V). `weight` (V): the weight of each class. As in PyTorch, the mean over class indices
/// is divided by the sum of the weights of the targets, and the mean over probabilities by the number of rows.
/// Probabilities do not support an ignore_index of 0 or more.
Variable cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& options = {},
                       const Variable& weight = {});
struct NllOptions {
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::kMean;
};
/// -log_probabilities[target] of each row: cross_entropy() of log_softmax(logits), with the same mean.
Variable nll(const Variable& log_probabilities, const Variable& targets, const NllOptions& options = {},
             const Variable& weight = {});

/// Weights that broadcast to the logits: `weight` of the loss of each element, `pos_weight` of its positive part.
struct BceWeights {
  Variable weight{};
  Variable pos_weight{};
};
/// Binary cross entropy of the sigmoid of `logits`. `targets` in [0, 1] have the shape of `logits`. The mean is divided
/// by the number of elements, whatever the weights.
Variable bce_with_logits(const Variable& logits, const Variable& targets,
                         const ops::BceWithLogits::Params& options = {}, const BceWeights& weights = {});
/// The same with the reduction as the only option, like bce().
inline Variable bce_with_logits(const Variable& logits, const Variable& targets, Reduction reduction,
                                const BceWeights& weights = {}) {
  return bce_with_logits(logits, targets, ops::BceWithLogits::Params{.reduction = reduction}, weights);
}
/// Binary cross entropy of probabilities; NaN outside [0, 1]. Throws ArgumentError if they are the output of a sigmoid
/// in 16 bits: rounding makes it 0 or 1, where the loss is infinite. Use bce_with_logits with the sigmoid's input
/// instead.
Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction = Reduction::kMean,
             const Variable& weight = {});
struct FocalOptions {
  double alpha = 0.25;  ///< weight of the positive class, 1 - alpha of the negative one; below 0: no weights
  double gamma = 2;     ///< exponent, at least 0
  Reduction reduction = Reduction::kMean;
};
/// Focal loss of logits x (Lin et al., 2017): (1 - q)^gamma times the binary cross entropy of sigmoid(x), where q is
/// the probability of the target. Its value is that of torchvision's sigmoid_focal_loss, whose default is no reduction.
Variable focal(const Variable& logits, const Variable& targets, const FocalOptions& options = {});

Variable mse(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable l1(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable huber(const Variable& x, const Variable& targets, double delta = 1, Reduction reduction = Reduction::kMean);
/// huber(x, targets, beta) / beta; l1 if beta is 0 or less than 2^-126.
Variable smooth_l1(const Variable& x, const Variable& targets, double beta = 1, Reduction reduction = Reduction::kMean);
/// Kullback-Leibler divergence of log-probabilities from `targets`, which are probabilities. Reduction::kBatchMean
/// divides the sum by the extent of dimension 0 and so gives the mean divergence per sample.
Variable kl_div(const Variable& log_probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);
struct PoissonNllOptions {
  bool log_input = true;  ///< x is the logarithm of the rate; false: the rate
  bool full = false;      ///< true: add Stirling's approximation of log(t!) for t > 1
  double eps = 1e-8;      ///< added to the rate before its logarithm
  Reduction reduction = Reduction::kMean;
};
/// Negative log-likelihood of counts t under a Poisson distribution: exp(x) - t x, or for a rate x,
/// x - t log(x + eps).
Variable poisson_nll(const Variable& x, const Variable& targets, const PoissonNllOptions& options = {});
struct GaussianNllOptions {
  bool full = false;  ///< true: add log(2 pi) / 2
  double eps = 1e-6;  ///< smaller variances count as eps; the gradient passes to them unchanged
  Reduction reduction = Reduction::kMean;
};
/// Negative log-likelihood of t under a normal distribution: (log v + (x - t)^2 / v) / 2. The variance broadcasts to x;
/// without the last axis of x, or with extent 1 there, it is one variance per row. A negative variance is a DataError
/// (on a GPU, its loss is NaN).
Variable gaussian_nll(const Variable& x, const Variable& targets, const Variable& variance,
                      const GaussianNllOptions& options = {});

/// Losses of distances and margins. Targets are 1 or -1, as numbers of any dtype.

/// x where t is 1, max(0, margin - x) where t is -1.
Variable hinge_embedding(const Variable& x, const Variable& targets, double margin = 1,
                         Reduction reduction = Reduction::kMean);
/// max(0, -t (a - b) + margin): a should exceed b where t is 1. All three have the same rank and broadcast.
Variable margin_ranking(const Variable& a, const Variable& b, const Variable& targets, double margin = 0,
                        Reduction reduction = Reduction::kMean);
/// log(1 + exp(-t x)).
Variable soft_margin(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
struct MultiMarginOptions {
  int p = 1;  ///< 1 or 2
  double margin = 1;
  Reduction reduction = Reduction::kMean;
};
/// For each row of x (..., V) with the class y of `targets` (...): the sum over j other than y of
/// weight_y max(0, margin - x_y + x_j)^p, divided by V.
Variable multi_margin(const Variable& x, const Variable& targets, const MultiMarginOptions& options = {},
                      const Variable& weight = {});
/// For each row of x (..., V): the sum of max(0, 1 - (x_y - x_j)) over the row's classes y and all other classes j,
/// divided by V. `targets` (..., V) list the classes of each row; the first -1 ends the list. Computes and keeps
/// (..., V, V) numbers.
Variable multilabel_margin(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
/// For each row of x (..., V): the mean over classes of bce_with_logits(), multiplied by `weight`, which broadcasts to
/// x.
Variable multilabel_soft_margin(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean,
                                const Variable& weight = {});
/// For rows a, b (..., D) with t (...): 1 - cos(a, b) where t is 1, max(0, cos(a, b) - margin) where t is -1.
Variable cosine_embedding(const Variable& a, const Variable& b, const Variable& targets, double margin = 0,
                          Reduction reduction = Reduction::kMean);
struct TripletMarginOptions {
  double margin = 1;
  double p = 2;       ///< of the norm
  double eps = 1e-6;  ///< added to each difference
  bool swap = false;  ///< true: the distance from positive to negative counts if it is smaller (Balntas et al., 2016)
  Reduction reduction = Reduction::kMean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin) with d = pairwise_distance(). All have one shape.
Variable triplet_margin(const Variable& anchor, const Variable& positive, const Variable& negative,
                        const TripletMarginOptions& options = {});
/// Options of triplet_margin_with_distance().
struct TripletOptions {
  double margin = 1;
  bool swap = false;  ///< true: the distance from positive to negative counts if it is smaller
  Reduction reduction = Reduction::kMean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin) with a distance d of your own.
Variable triplet_margin_with_distance(const Variable& anchor, const Variable& positive, const Variable& negative,
                                      const std::function<Variable(const Variable&, const Variable&)>& distance,
                                      const TripletOptions& options = {});
/// The p-norm of a - b + eps over the last axis.
Variable pairwise_distance(const Variable& a, const Variable& b, double p = 2, double eps = 1e-6, bool keepdim = false);
/// The cosine of the angle between vectors along `axis`: sum(a b) / (max(|a|, eps) max(|b|, eps)). a and b broadcast.
/// Computed and stored in f32 (f64 for f64).
Variable cosine_similarity(const Variable& a, const Variable& b, int axis = 1, double eps = 1e-8);

/// Losses of overlap. Their sums include the whole batch, so single elements have no loss. With smooth = 0, the loss of
/// a class that is neither predicted nor a target is NaN.

/// 1 - (2 sum(p t) + smooth) / (sum(p) + sum(t) + smooth).
Variable dice(const Variable& probabilities, const Variable& targets, double smooth = 1);
struct TverskyOptions {
  double alpha = 0.5;  ///< weight of false positives
  double beta = 0.5;   ///< weight of false negatives
  double smooth = 1;
};
/// 1 - (sum(p t) + smooth) / (sum(p t) + alpha sum(p (1 - t)) + beta sum((1 - p) t) + smooth) (Salehi et al., 2017).
/// With alpha = beta = 0.5 it is dice() with twice the smooth.
Variable tversky(const Variable& probabilities, const Variable& targets, const TverskyOptions& options = {});
struct MulticlassDiceOptions {
  double smooth = 1;
  bool include_background = true;  ///< false: leave class 0 out
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::kMean;  ///< over classes; kNone: (V) losses, without background (V - 1)
};
/// dice() of each class, with p = softmax(logits). logits (..., V); targets (...) are class indices.
Variable multiclass_dice(const Variable& logits, const Variable& targets, const MulticlassDiceOptions& options = {});
struct DiceCrossEntropyOptions {
  double dice_weight = 1;
  double cross_entropy_weight = 1;
  double smooth = 1;
  bool include_background = true;  ///< false: class 0 has no Dice loss; it keeps its cross entropy
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;  ///< of the cross entropy
};
/// The weighted sum of multiclass_dice() and cross_entropy(), both as means. `weight` (V): of classes, in the cross
/// entropy.
Variable dice_cross_entropy(const Variable& logits, const Variable& targets,
                            const DiceCrossEntropyOptions& options = {}, const Variable& weight = {});

struct CtcOptions {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::kMean;  ///< kMean: of each loss divided by the target's length (at least 1)
  bool zero_infinity = false;              ///< true: a sample without a path has loss and gradient 0
};
/// Connectionist temporal classification of log-probabilities (T, N, C), usually log_softmax(x); see core/ops/ctc.h.
/// `targets`: (N, S), or the concatenated targets of all samples (sum of the target lengths); the host then reads the
/// target lengths. Lengths (N): whole numbers. One sample without the axis N: (T, C), targets (S), lengths ().
Variable ctc(const Variable& log_probabilities, const Variable& targets, const Variable& input_lengths,
             const Variable& target_lengths, const CtcOptions& options = {});

}  // namespace binade
