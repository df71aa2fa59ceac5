#include "binade/autograd/functions/losses.h"

#include <limits>

#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/functions/loss_parts.h"
#include "binade/autograd/functions/math.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/ctc.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/fold.h"

namespace binade::derivatives {
namespace {

/// Prediction x and targets t of an elementwise loss, and gy / divisor, the factor of each element's derivative.
template <class Op>
struct LossCall {
  const RecordedCall& call;
  Variable x = wide(call.input(0, 0)), t = to_sum_dtype_of(call.input(1, 1), x);
  Variable factor = wide(call.gy()) / ops::detail::divisor_of(call.params<Op>().reduction, call.described(0).shape);

  /// Returns the gradients, given the derivatives of one element's loss by x and by t.
  template <class X, class T>
  Variables gradients(X by_x, T by_t) const {
    Variables g(2);
    if (call.needs(0)) g[0] = factor * by_x();
    if (call.needs(1)) g[1] = factor * by_t();
    return g;
  }
};

Variables mse_gradients(const RecordedCall& call) {
  const LossCall<ops::Mse> loss{call};
  const Variable& x = loss.x;
  return loss.gradients([&] { return (x - loss.t) * 2; }, [&] { return (loss.t - x) * 2; });
}

Variables l1_gradients(const RecordedCall& call) {
  const LossCall<ops::L1> loss{call};
  const Variable& x = loss.x;
  return loss.gradients([&] { return sign(x - loss.t); }, [&] { return sign(loss.t - x); });
}

Variables huber_gradients(const RecordedCall& call) {
  const LossCall<ops::Huber> loss{call};
  const double delta = call.params<ops::Huber>().delta;
  return loss.gradients([&] { return clamp(loss.x - loss.t, -delta, delta); },
                        [&] { return clamp(loss.t - loss.x, -delta, delta); });
}

Variables bce_with_logits_gradients(const RecordedCall& call) {
  const LossCall<ops::BceWithLogits> loss{call};
  const Variable &x = loss.x, &t = loss.t;
  const double weight = call.params<ops::BceWithLogits>().pos_weight;
  return loss.gradients([&] { return (1 - t) * sigmoid(x) - t * sigmoid(-x) * weight; },
                        [&] { return softplus(-x) * weight - softplus(x); });
}

/// If x = t = 0 or x = t = 1, one term is 0 / 0. It counts as 0, as in the op: its divisor is replaced by 1.
Variables bce_gradients(const RecordedCall& call) {
  const LossCall<ops::Bce> loss{call};
  const Variable &x = loss.x, &t = loss.t;
  const auto divisor = [](const Variable& distance, const Variable& factor) {
    const Variable one = Tensor::full(Shape{}, 1, distance.dtype(), distance.device());
    return where(logical_and(distance == 0, factor == 0), one, distance);
  };
  return loss.gradients([&] { return (1 - t) / divisor(1 - x, 1 - t) - t / divisor(x, t); },
                        [&] { return log1p(-x) - log(x); });
}

Variables kl_div_gradients(const RecordedCall& call) {
  const LossCall<ops::KlDiv> loss{call};
  return loss.gradients([&] { return -loss.t; }, [&] { return log(loss.t) + 1 - loss.x; });
}

/// gx = gy (r softmax(x) + k) with constants r and k. k is the part of targets and label smoothing; the backward kernel
/// computes it, given infinite sums of exp(x), with which its softmax is 0. r is minus the sum of k in each row.
Variables cross_entropy_gradient(const RecordedCall& call) {
  const auto& p = call.params<ops::CrossEntropy>();
  const Variable x = wide(call.input(0, 0));
  const Tensor &targets = call.saved(1), &statistics = call.saved(2);
  Tensor count = call.saved(3);
  Tensor infinite = Tensor::full(statistics.shape(), std::numeric_limits<double>::infinity(), statistics.dtype(),
                                 statistics.device());
  Tensor k = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor logits = Tensor::zeros(x.shape(), x.dtype(), x.device());
  const bool each = p.reduction == Reduction::kNone, mean = p.reduction == Reduction::kMean;
  const Tensor one = Tensor::full(call.gy().shape(), 1, x.dtype(), x.device());
  if (k.numel() > 0)
    kernels(x.device())
        .cross_entropy({.backward = true,
                        .each = each,
                        .divisor = mean ? 0 : ops::detail::divisor_of(p.reduction, targets.shape()),
                        .rows = targets.numel(),
                        .classes = x.shape().cols(),
                        .pitch = x.shape().cols(),
                        .logits = input(logits),
                        .targets = input(targets),
                        .statistics = output(infinite),
                        .count = static_cast<std::int64_t*>(count.mutable_raw()),  // backward reads only
                        .gy = input(one),
                        .out = output(k),
                        .ignore_index = p.ignore_index,
                        .label_smoothing = p.label_smoothing});
  const Variable r = -sum(Variable(k), {-1}, true);
  const Variable gy = wide(call.gy());
  const Variable counted = detail::only_where(r != 0, x);  // an ignored row may contain NaN
  return {(each ? shaped(gy, r.shape()) : gy) * (softmax(counted) * r + k), {}};
}

/// loss = 1 - n / d with n = 2 sum(x t) + smooth and d = sum(x) + sum(t) + smooth.
Variables dice_gradients(const RecordedCall& call) {
  const double smooth = call.params<ops::Dice>().smooth;
  const Variable x = wide(call.input(0, 0)), t = wide(call.input(1, 1));
  const Variable d = sum(x) + sum(t) + smooth, share = (sum(x * t) * 2 + smooth) / d;
  const Variable factor = wide(call.gy()) / d;
  Variables g(2);
  if (call.needs(0)) g[0] = factor * (share - t * 2);
  if (call.needs(1)) g[1] = factor * (share - x * 2);
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::Mse::info, mse_gradients},
    {&ops::L1::info, l1_gradients},
    {&ops::Huber::info, huber_gradients},
    {&ops::BceWithLogits::info, bce_with_logits_gradients},
    {&ops::Bce::info, bce_gradients},
    {&ops::KlDiv::info, kl_div_gradients},
    {&ops::CrossEntropy::info, cross_entropy_gradient},
    {&ops::Ctc::info, nullptr,
     "there is no formula with functions of variables; leave the penalty on its gradient out"},
    {&ops::Dice::info, dice_gradients},
};

}  // namespace

std::span<const Entry> derivatives_of_losses() { return kEntries; }

}  // namespace binade::derivatives
