#include "binade/autograd/functions/activations.h"

#include <cmath>
#include <vector>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/make.h"
#include "binade/core/ops/move.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

void check_dropout(const char* name, const Variable& x, double p) {
  check<ArgumentError>(p >= 0 && p < 1, "{}: wanted p in [0, 1), got {}", where(name), p);
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where(name),
                    name_of(x.dtype()));
}

/// Returns ones for each sample and channel of x (N, …, C): (N, 1, …, 1, C).
Tensor ones_of_channels(const char* name, const Variable& x) {
  const int rank = x.value().rank();
  check<ShapeError>(rank >= 2, "{}: wanted x (N, …, C), got {}", where(name), x.shape());
  std::vector<std::int64_t> extents(static_cast<std::size_t>(rank), 1);
  extents.front() = x.dim(0);
  extents.back() = x.dim(-1);
  return Tensor::full(Shape(extents), 1, x.dtype(), x.device());
}

/// Returns x where `kept` is true, otherwise the limit of selu(), with a scale and an offset that keep mean 0 and
/// variance 1.
Variable limited(const Variable& x, const Variable& kept, double p) {
  constexpr double kLimit = -1.7580993408473766;  // -(scale alpha) of selu()
  const double s = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit));
  return where(kept, x, Tensor::scalar(kLimit, x.dtype(), x.device())) * s - s * kLimit * p;
}

}  // namespace

Variable glu(const Variable& x, int axis) {
  const int at = ops::checked_axis("glu", axis, x.value().rank());
  const std::int64_t extent = x.dim(at);
  check<ShapeError>(extent % 2 == 0, "{}: wanted an even extent of axis {}, got {}", where("glu"), axis, x.shape());
  return narrow(x, at, 0, extent / 2) * sigmoid(narrow(x, at, extent / 2, extent / 2));
}

Variable softmin(const Variable& x, int axis) { return softmax(-x, axis); }

Variable dropout2d(const Variable& x, double p) {
  check_dropout("dropout2d", x, p);
  return x.value().numel() == 0 ? x : x * dropout(ones_of_channels("dropout2d", x), p);
}

Variable alpha_dropout(const Variable& x, double p) {
  check_dropout("alpha_dropout", x, p);
  return limited(x, dropout(ones_like(x.value()), p) > 0.0, p);
}

Variable feature_alpha_dropout(const Variable& x, double p) {
  check_dropout("feature_alpha_dropout", x, p);
  const Tensor channels = ones_of_channels("feature_alpha_dropout", x);
  return x.value().numel() == 0 ? x : limited(x, dropout(channels, p) > 0.0, p);
}

Variable rrelu(const Variable& x, double lower, double upper, bool training) {
  check<ArgumentError>(std::isfinite(lower) && std::isfinite(upper) && lower <= upper,
                       "{}: wanted finite slopes lower <= upper, got {} and {}", where("rrelu"), lower, upper);
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where("rrelu"),
                    name_of(x.dtype()));
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  const Variable random = rand(x.shape(), accumulate_dtype(x.dtype()), x.device());
  return where(x < 0.0, x * cast(random * (upper - lower) + lower, x.dtype()), x);
}

Variable gumbel_softmax(const Variable& x, double tau, bool hard, int axis) {
  constexpr const char* kName = "gumbel_softmax";
  check<ArgumentError>(std::isfinite(tau) && tau > 0, "{}: wanted a finite tau > 0, got {}", where(kName), tau);
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted logits of a floating dtype, got {}", where(kName),
                    name_of(x.dtype()));
  const int at = ops::checked_axis(kName, axis, x.value().rank());
  const Variable logits = cast(x, accumulate_dtype(x.dtype()));
  // -log(1 - u) has an exponential distribution, and minus its logarithm a Gumbel distribution. The lower limit keeps
  // the logarithm finite for u = 0; it is half of the distance between values of u.
  const Variable exponential = clamp(-log1p(-Variable(rand(x.shape(), logits.dtype(), x.device()))), 0x1p-25, 64);
  const Variable y = softmax((logits - log(exponential)) / tau, at);
  if (!hard) return y;
  const Variable one = scatter(Tensor::zeros(y.shape(), y.dtype(), y.device()), at, argmax(y.detach(), at, true), 1.0);
  return one + (y - y.detach());
}

}  // namespace binade
