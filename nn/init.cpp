#include "binade/nn/init.h"

#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/linalg.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "binade/core/parallel.h"
#include "binade/core/runtime.h"
#include "binade/core/special_math.h"

namespace binade::nn::init {
namespace {

constexpr std::int64_t kGrain = 4096;
thread_local bool skipped = false;

/// Sets element i to f(stream, i), computed in double and rounded once. The stream is the runtime's next init stream.
template <class F>
void fill(Parameter& p, F&& f) {
  const RandomStream stream = Runtime::current().next_init_stream();
  if (skipped) return p.mutable_value().fill(0);
  Tensor values = Tensor::empty(p.shape(), p.dtype());
  dispatch_float(p.dtype(), "init", [&]<class T>(TypeTag<T>) {
    T* to = values.mutable_data<T>();
    parallel_for(values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = store<T>(static_cast<Compute<T>>(f(stream, static_cast<std::uint64_t>(i))));
    });
  });
  p.mutable_value().copy_from(values.to(p.device()));
}

double gain(const KaimingOptions& o) { return std::sqrt(2 / (1 + o.slope * o.slope)); }

double kaiming_std(const Parameter& p, const KaimingOptions& o) {
  const Fans f = fans(p.shape());
  return gain(o) / std::sqrt(static_cast<double>(o.mode == FanMode::kIn ? f.in : f.out));
}

double xavier_std(const Parameter& p, double factor) {
  const Fans f = fans(p.shape());
  return factor * std::sqrt(2.0 / static_cast<double>(f.in + f.out));
}

}  // namespace

SkipScope::SkipScope(bool skip) : ScopedValue(skipped, skipped || skip) {}

Fans fans(const Shape& weight) {
  check<ShapeError>(weight.rank() >= 2, "init: wanted a weight of rank 2 or more, got {}; use normal or uniform",
                    weight);
  std::int64_t receptive = 1;
  for (int d = 1; d + 1 < weight.rank(); ++d) receptive *= weight[d];
  return {receptive * weight[-1], receptive * weight[0]};
}

void constant(Parameter& p, double value) { p.mutable_value().fill(value); }
void zeros(Parameter& p) { constant(p, 0); }
void ones(Parameter& p) { constant(p, 1); }

void normal(Parameter& p, double std, double mean) {
  fill(p, [=](const RandomStream& stream, std::uint64_t i) { return mean + std * stream.normal(i); });
}

void uniform(Parameter& p, double low, double high) {
  fill(p, [=](const RandomStream& stream, std::uint64_t i) { return low + (high - low) * stream.uniform(i); });
}

void trunc_normal(Parameter& p, double std, double mean, double low, double high) {
  check<ArgumentError>(std > 0 && low < high, "init: wanted std > 0 and low < high, got {}, {} and {}", std, low, high);
  const auto below = [&](double x) { return std::erfc((mean - x) / std / std::sqrt(2.0)) / 2; };  // probability
  const double first = below(low), last = below(high);
  check<ArgumentError>(first < last, "init: N({}, {}^2) has no values between {} and {}", mean, std, low, high);
  fill(p, [=](const RandomStream& stream, std::uint64_t i) {
    const double share = first + (last - first) * (static_cast<double>(stream.word(i)) + 0.5) * 0x1p-32;
    return std::clamp(mean + std * std::sqrt(2.0) * math::erfinv(2 * share - 1), low, high);
  });
}

void orthogonal(Parameter& p, double factor) {
  fans(p.shape());
  normal(p);
  if (skipped || p.value().numel() == 0) return;
  const NoGradGuard guard;
  const Tensor drawn = p.value().on_host();
  const Variable matrix = drawn.reshape(Shape{p.dim(0), drawn.numel() / p.dim(0)});
  const bool wide = matrix.dim(0) < matrix.dim(1);
  const Variable q = qr(wide ? transpose(matrix) : matrix).q;  // uniform, since r has a positive diagonal
  const Variable rows = (wide ? transpose(q) : q) * factor;
  p.mutable_value().copy_from(rows.value().contiguous_copy().reshape(p.shape()).to(p.device()));
}

void identity(Parameter& p) {
  check<ShapeError>(p.shape().rank() == 2, "init: wanted a weight (out, in), got {}", p.shape());
  p.mutable_value().copy_from(eye(p.dim(0), p.dim(1), p.dtype(), p.device()));
}

void xavier_normal(Parameter& p, double factor) { normal(p, xavier_std(p, factor)); }
void xavier_uniform(Parameter& p, double factor) {
  const double bound = std::sqrt(3.0) * xavier_std(p, factor);
  uniform(p, -bound, bound);
}

void kaiming_normal(Parameter& p, const KaimingOptions& o) { normal(p, kaiming_std(p, o)); }
void kaiming_uniform(Parameter& p, const KaimingOptions& o) {
  const double bound = std::sqrt(3.0) * kaiming_std(p, o);
  uniform(p, -bound, bound);
}

}  // namespace binade::nn::init
