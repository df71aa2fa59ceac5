#include "binade/nn/init.h"

#include <cmath>

#include "binade/core/error.h"
#include "binade/core/parallel.h"
#include "binade/core/runtime.h"

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
