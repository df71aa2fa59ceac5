#pragma once

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"
#include "binade/core/ops/reduction.h"

/// Losses that are computed element by element from a prediction x and a target t, two tensors of the same shape. Each
/// op defines the function of one element and its two derivatives. Inputs have any dtype (targets may be integers); the
/// ops compute and sum in f32 (f64 if x is f64), in a fixed order: it depends on the size and, on a GPU, on dtypes and
/// alignment. The result is a scalar, or with Reduction::kNone a tensor of x's shape.
namespace binade::ops {

namespace detail {
/// Returns `info` with the fields that all losses of a prediction and a target of the same shape share.
constexpr OpInfo loss_info(OpInfo info) {
  info.inputs = "x, targets";
  info.precision = PrecisionClass::kFull;
  info.policy_inputs = 1;
  info.observed = Observed::kByKernels;
  return info;
}
/// Throws DTypeError or ShapeError unless x is floating and t has x's shape.
void check_loss(const OpInfo& info, std::span<const Tensor> in);
/// Returns the number by which the sum over the elements of `shape` is divided; 1 for kNone.
double divisor_of(Reduction reduction, const Shape& shape);
/// Computes the loss into `out` if `direction` is 0 (gy is then undefined), the gradient of x if it is 1, and that of t
/// if it is 2. `op`: position of the loss in the list ElementLosses.
void element_loss(int op, int direction, const Tensor& x, const Tensor& t, const Tensor& gy, Reduction reduction,
                  Tensor& out, const OpParams& p);
}  // namespace detail

/// Base of the losses. A derived struct defines Params (with a `reduction`), info, and functions of one element:
/// value(x, t, p), gradient_x(x, t, p) and gradient_t(x, t, p). Saves x and t. Throws ShapeError unless x and t have
/// the same shape.
template <class Op>
struct ElementLoss {
  /// Derivative with respect to t of a loss that depends only on x - t. Other losses define their own gradient_t.
  BINADE_HD static auto gradient_t(auto x, auto t, const auto& p) { return -Op::gradient_x(x, t, p); }

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    detail::check_loss(Op::info, in);
    if constexpr (requires { Op::check_params(p); }) Op::check_params(p);
    const Shape shape = p.reduction == Reduction::kNone ? in[0].shape() : Shape{};
    Tensor loss = Tensor::empty(shape, ctx.store_dtype, in[0].device());
    detail::element_loss(position_in<Op>(ElementLosses{}), 0, in[0], in[1], {}, p.reduction, loss, OpParams(p));
    ctx.save(in[0]);
    ctx.save(in[1]);
    return {loss};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const auto& p) {
    const Tensor& x = ctx.saved(0, Op::info.name);
    const Tensor& t = ctx.saved(1, Op::info.name);
    for (int i = 0; i < 2; ++i) {
      if (!gx.needs(i)) continue;
      Tensor destination = gx.destination(i);
      detail::element_loss(position_in<Op>(ElementLosses{}), i + 1, x, t, gy[0], p.reduction, destination, OpParams(p));
    }
  }
};

/// Params of losses whose only option is the reduction.
struct LossParams {
  Reduction reduction = Reduction::kMean;
};

/// Squared error (x - t)^2.
struct Mse : ElementLoss<Mse> {
  using Params = LossParams;
  static constexpr OpInfo info = detail::loss_info(
      OpInfo{.name = "mse", .family = OpFamily::kDistanceLoss, .range = ranges::not_negative});
  BINADE_HD static auto value(auto x, auto t, const Params&) { return (x - t) * (x - t); }
  BINADE_HD static auto gradient_x(auto x, auto t, const Params&) { return 2 * (x - t); }
  BINADE_HD static auto gradient_t(auto x, auto t, const Params&) { return 2 * (t - x); }
};

/// Absolute error |x - t|. Its derivative is 0 at x = t.
struct L1 : ElementLoss<L1> {
  using Params = LossParams;
  static constexpr OpInfo info = detail::loss_info(
      OpInfo{.name = "l1", .family = OpFamily::kDistanceLoss, .range = ranges::not_negative});
  BINADE_HD static auto value(auto x, auto t, const Params&) { return math::abs(x - t); }
  template <class C>
  BINADE_HD static C gradient_x(C x, C t, const Params&) {
    const C d = x - t;
    const C sign = d < 0 ? C(-1) : C(1);
    return d == 0 || d != d ? d : sign;
  }
};

/// Huber loss of d = x - t: d^2 / 2 if |d| <= delta, otherwise delta (|d| - delta / 2). Source: Huber, 1964. Throws
/// ArgumentError unless delta > 0.
struct Huber : ElementLoss<Huber> {
  struct Params {
    double delta = 1;
    Reduction reduction = Reduction::kMean;
  };
  static constexpr OpInfo info = detail::loss_info(
      OpInfo{.name = "huber", .family = OpFamily::kDistanceLoss, .range = ranges::not_negative});
  static void check_params(const Params& p) {
    check<ArgumentError>(p.delta > 0, "{}: wanted delta > 0, got {}", where(info.name), p.delta);
  }
  template <class C>
  BINADE_HD static C value(C x, C t, const Params& p) {
    const C d = math::abs(x - t), delta = C(p.delta);
    const C far = delta * (d - C(0.5) * delta);
    return d > delta ? far : C(0.5) * d * d;
  }
  template <class C>
  BINADE_HD static C gradient_x(C x, C t, const Params& p) {
    return math::clamp(x - t, C(-p.delta), C(p.delta));
  }
};

/// Binary cross entropy of a logit x: (1 - t) softplus(x) + pos_weight t softplus(-x), t in [0, 1]. Prefer it to Bce
/// for training, because it has no cancellation and no singularity.
struct BceWithLogits : ElementLoss<BceWithLogits> {
  struct Params {
    double pos_weight = 1;  ///< weight of the positive class, for imbalanced data
    Reduction reduction = Reduction::kMean;
  };
  static constexpr OpInfo info = detail::loss_info(OpInfo{.name = "bce_with_logits",
                                                          .family = OpFamily::kProbabilityLoss,
                                                          .range = ranges::not_negative,
                                                          .targets = {0, 1}});
  template <class C>
  BINADE_HD static C value(C x, C t, const Params& p) {
    const C tail = math::log1p(math::exp(-math::abs(x)));
    const C above = x > 0 ? x : C(0), below = x < 0 ? -x : C(0);
    return (1 - t) * (above + tail) + C(p.pos_weight) * t * (below + tail);
  }
  template <class C>
  BINADE_HD static C gradient_x(C x, C t, const Params& p) {
    return (1 - t) * math::sigmoid(x) - C(p.pos_weight) * t * math::sigmoid(-x);
  }
  template <class C>
  BINADE_HD static C gradient_t(C x, C, const Params& p) {
    return C(p.pos_weight) * math::softplus(-x) - math::softplus(x);
  }
};

/// Binary cross entropy of a probability x in [0, 1]: -(t log x + (1 - t) log(1 - x)), where a term with factor 0 is 0.
/// It is infinite if x is 0 or 1 and t is not x. The loss clamps no value, so that the singularity stays visible.
/// bce_with_logits has no singularity.
struct Bce : ElementLoss<Bce> {
  using Params = LossParams;
  static constexpr OpInfo info = detail::loss_info(
      OpInfo{.name = "bce",
             .numerics = {.safe_low = 0, .safe_high = 1},
             .family = OpFamily::kProbabilityLoss,
             .singularities = {{.input = 0, .at = 0}, {.input = 0, .at = 1}},
             .range = ranges::not_negative,
             .targets = {0, 1}});
  template <class C>
  BINADE_HD static C log_complement(C x) {
    const C near_one = math::log(1 - x), near_zero = math::log1p(-x);
    return x > C(0.5) ? near_one : near_zero;
  }
  template <class C>
  BINADE_HD static C value(C x, C t, const Params&) {
    const C positive = t * math::log(x), negative = (1 - t) * log_complement(x);
    const C sum = (t == 0 && x == x ? C(0) : positive) + (t == 1 && x == x ? C(0) : negative);
    return -sum;
  }
  template <class C>
  BINADE_HD static C gradient_x(C x, C t, const Params&) {
    const C positive = t / x, negative = (1 - t) / (1 - x);
    return (t == 1 && x == x ? C(0) : negative) - (t == 0 && x == x ? C(0) : positive);
  }
  BINADE_HD static auto gradient_t(auto x, auto, const Params&) { return log_complement(x) - math::log(x); }
};

/// Kullback-Leibler divergence of probabilities t from log-probabilities x: t (log t - x) per element, 0 if t is 0.
struct KlDiv : ElementLoss<KlDiv> {
  using Params = LossParams;
  static constexpr OpInfo info = detail::loss_info(
      OpInfo{.name = "kl_div", .family = OpFamily::kProbabilityLoss, .targets = {.low = 0}});
  template <class C>
  BINADE_HD static C value(C x, C t, const Params&) {
    const C term = t * (math::log(t) - x);
    return t == 0 && x == x ? C(0) : term;
  }
  BINADE_HD static auto gradient_x(auto x, auto t, const Params&) { return x == x ? -t : x; }
  BINADE_HD static auto gradient_t(auto x, auto t, const Params&) { return math::log(t) + 1 - x; }
};

}  // namespace binade::ops
