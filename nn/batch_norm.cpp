#include "binade/nn/batch_norm.h"

#include "binade/autograd/functions/norm.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/nn/statistics_log.h"

namespace binade::nn {

BatchNorm::BatchNorm(const char* kind, const char* layout, int least_rank, int most_rank, const BatchNormOptions& o)
    : kind_(kind), layout_(layout), least_rank_(least_rank), most_rank_(most_rank), options_(o) {
  check<ArgumentError>(o.channels > 0 && o.eps >= 0 && o.momentum >= 0 && o.momentum <= 1,
                       "{}: wanted channels > 0, eps >= 0 and momentum in [0, 1], got {}, {} and {}", kind, o.channels,
                       o.eps, o.momentum);
  weight = Parameter(Tensor::full({o.channels}, 1, DType::f32, Runtime::current_device()));
  bias = Parameter(Tensor::zeros({o.channels}, DType::f32, Runtime::current_device()));
  running_mean = Buffer(Tensor::zeros({o.channels}, DType::f32, Runtime::current_device()));
  running_var = Buffer(Tensor::full({o.channels}, 1, DType::f32, Runtime::current_device()));
  num_batches_tracked = Buffer(Tensor::zeros({}, DType::i64, Runtime::current_device()));
}

void BatchNorm::visit(Visitor& v) {
  WeightedModule::visit(v);
  v("running_mean", running_mean);
  v("running_var", running_var);
  v("num_batches_tracked", num_batches_tracked);
}

Variable BatchNorm::operator()(const Variable& x, const Variable& residual, const ops::OutputView& into) {
  const ModuleScope scope(*this);
  return forward(x, residual, into);
}

Variable BatchNorm::forward(const Variable& x, const Variable& residual, const ops::OutputView& into) {
  const int rank = x.value().rank();
  check<ShapeError>(rank >= least_rank_ && rank <= most_rank_ && x.dim(-1) == options_.channels,
                    "{}: wanted x {} with {} channels, got {}", where(kind()), layout_, options_.channels, x.shape());
  const ChannelNormOptions options{.eps = options_.eps, .relu = options_.relu, .residual = residual, .into = into};
  if (!training()) return batch_norm_with(x, running_mean.value(), running_var.value(), weight, bias, options);
  const BatchNormResult n = batch_norm(x, weight, bias, options);
  if (step_context().recomputing) return n.y;
  StatisticsLog::note(*this, n.mean.value(), n.var.value(), x.shape().rows());
  move_statistics(n.mean.value(), n.var.value(), x.shape().rows());
  return n.y;
}

void BatchNorm::move_statistics(const Tensor& mean, const Tensor& var, std::int64_t count) {
  const auto share = static_cast<float>(options_.momentum), rest = static_cast<float>(1 - options_.momentum);
  const auto unbiased = count > 1 ? static_cast<float>(static_cast<double>(count) / static_cast<double>(count - 1))
                                  : 1.0f;
  Tensor &running_m = running_mean.writable(), &running_v = running_var.writable(),
         &batches = num_batches_tracked.writable();
  kernels(running_m.device())
      .move_statistics({.cols = options_.channels,
                        .share = share,
                        .rest = rest,
                        .unbiased = unbiased,
                        .dtype = mean.dtype(),
                        .mean = mean.raw(),
                        .var = var.raw(),
                        .running_mean = running_m.mutable_data<float>(),
                        .running_var = running_v.mutable_data<float>(),
                        .batches = batches.mutable_data<std::int64_t>()});
}

}  // namespace binade::nn
