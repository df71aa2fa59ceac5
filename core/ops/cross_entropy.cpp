#include "binade/core/ops/cross_entropy.h"

#include "binade/core/faults.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/element_losses.h"

namespace binade::ops {
namespace {

CrossEntropyArgs arguments(const Tensor& logits, const Tensor& targets, Tensor& statistics, Tensor& count,
                           const CrossEntropy::Params& p) {
  const bool mean = p.reduction == Reduction::kMean;
  return {.each = p.reduction == Reduction::kNone,
          .divisor = mean ? 0 : detail::divisor_of(p.reduction, targets.shape()),
          .rows = targets.numel(),
          .classes = logits.shape().cols(),
          .pitch = logits.pitch(),
          .logits = input(logits),
          .targets = input(targets),
          .statistics = output(statistics),
          .count = static_cast<std::int64_t*>(count.mutable_raw()),  // without a new version: backward reads only
          .ignore_index = p.ignore_index,
          .label_smoothing = p.label_smoothing};
}

}  // namespace

Tensors CrossEntropy::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Tensor& logits = in[0];
  const DType labels = in[1].dtype();
  detail::check_floating(info, in.first(1));
  check<DTypeError>(labels == DType::i64 || labels == DType::i32 || labels == DType::u8,
                    "{}: wanted i64, i32 or u8 targets, got {}", where(info.name), name_of(labels));
  check<ArgumentError>(p.label_smoothing >= 0 && p.label_smoothing <= 1, "{}: wanted 0 <= label_smoothing <= 1, got {}",
                       where(info.name), p.label_smoothing);
  const Tensor targets = in[1].contiguous_copy();
  const auto dims = logits.shape().dims();
  check<ShapeError>(logits.rank() >= 1 && targets.shape() == Shape(dims.first(dims.size() - 1)),
                    "{}: wanted logits (..., V), with the classes in the last axis, and targets (...), got {} and {}",
                    where(info.name), logits.shape(), targets.shape());
  const std::int64_t rows = targets.numel();
  Tensor statistics = Tensor::empty(Shape{rows, 2}, accumulate_dtype(logits.dtype()), logits.device());
  Tensor count = Tensor::empty(Shape{1}, DType::i64, logits.device());
  const Shape shape = p.reduction == Reduction::kNone ? targets.shape() : Shape{};
  Tensor loss = Tensor::empty(shape, ctx.store_dtype, logits.device());
  CrossEntropyArgs a = arguments(logits, targets, statistics, count, p);
  a.out = output(loss);
  a.call = register_call([op = where(info.name).to_string(), shape = targets.shape(), classes = a.classes,
                          ignore = p.ignore_index](std::int64_t row, std::int64_t label) {
    return fmt::format("{}: wanted targets from 0 to {} (or ignore_index {}), got {} at {}", op, classes - 1, ignore,
                       label, shape.position(row));
  });
  kernels(logits.device()).cross_entropy(a);
  ctx.save(logits);
  ctx.save(targets);
  ctx.save(statistics);
  ctx.save(count);
  return {loss};
}

void CrossEntropy::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Tensor& logits = ctx.saved(
      0, info.name);  // a reference: with a second owner, the gradient could not overwrite the logits
  Tensor destination = gx.destination_over(0, 0);
  Tensor statistics = ctx.saved(2, info.name), count = ctx.saved(3, info.name);
  CrossEntropyArgs a = arguments(logits, ctx.saved(1, info.name), statistics, count, p);
  a.backward = true;
  a.gy = input(gy[0]);
  a.out = output(destination);
  kernels(logits.device()).cross_entropy(a);
}

}  // namespace binade::ops
