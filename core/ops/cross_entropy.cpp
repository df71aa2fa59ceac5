#include "binade/core/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/losses.h"
#include "binade/core/ops/elementwise.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/parallel.h"

namespace binade::ops {
namespace {

cpu::In in(const Tensor& t) { return {t.raw(), t.dtype()}; }
cpu::Out out(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }

std::int64_t label_at(const Tensor& targets, std::int64_t row) {
  switch (targets.dtype()) {
    case DType::i64: return targets.data<std::int64_t>()[row];
    case DType::i32: return targets.data<std::int32_t>()[row];
    default: return targets.data<std::uint8_t>()[row];
  }
}

std::int64_t count_labels(const Tensor& targets, std::int64_t classes, std::int64_t ignore) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < targets.numel(); ++row) {
    const std::int64_t label = label_at(targets, row);
    if (label == ignore) continue;
    if (label < 0 || label >= classes) [[unlikely]]
      throw DataError(
          bad_target_text(where(CrossEntropy::info.name).to_string(), targets.shape(), row, label, classes, ignore));
    ++count;
  }
  return count;
}

std::int64_t rows_grain(std::int64_t classes) {
  return std::max<std::int64_t>(1, (1 << 13) / std::max<std::int64_t>(classes, 1));
}

/// One row's loss from its statistics (maximum, sum of exponentials, and for smoothing the sum of distances below the
/// maximum).
template <class C>
C row_loss(const C* three, C target_logit, std::int64_t classes, C smoothing) {
  const C nll = std::log(three[1]) - (1 - smoothing) * (target_logit - three[0]);
  return smoothing > 0 ? nll - smoothing * (three[2] / static_cast<C>(classes)) : nll;
}

void forward_rows(const Tensor& logits, const Tensor& targets, Tensor& statistics, Tensor& count_of_rows, Tensor& loss,
                  const CrossEntropy::Params& p) {
  const std::int64_t classes = logits.shape().cols();
  const std::int64_t count = count_labels(targets, classes, p.ignore_index);
  count_of_rows.mutable_data<std::int64_t>()[0] = count;
  Tensor losses = Tensor::empty(Shape{targets.numel()}, statistics.dtype());  // 0 where a row is ignored
  dispatch_float(losses.dtype(), "cross_entropy", [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_same_v<C, Compute<C>>)
      parallel_for(targets.numel(), rows_grain(classes), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          C three[3] = {0, 1, 0};
          const std::int64_t label = label_at(targets, row);
          const cpu::In x = in(logits).at(row * logits.pitch());
          if (label != p.ignore_index)
            cpu::kernels().pointwise.losses->row_statistics(x, classes, p.label_smoothing > 0, three);
          statistics.mutable_data<C>()[2 * row] = three[0];
          statistics.mutable_data<C>()[2 * row + 1] = three[1];
          C logit = 0;
          if (label != p.ignore_index)
            dispatch_float(x.dtype, "cross_entropy", [&]<class T>(TypeTag<T>) {
              logit = static_cast<C>(load(static_cast<const T*>(x.data)[label]));
            });
          losses.mutable_data<C>()[row] = label == p.ignore_index
                                              ? C(0)
                                              : row_loss(three, logit, classes, static_cast<C>(p.label_smoothing));
        }
      });
  });
  Tensor total = loss.reshape(Shape{1});
  reduce_kernels.on(logits.device(), CrossEntropy::info.name).sum(losses, total, static_cast<double>(count));
}

void backward_rows(const Tensor& logits, const Tensor& targets, const Tensor& statistics, const Tensor& count,
                   const Tensor& gy, Tensor& gx, const CrossEntropy::Params& p) {
  const std::int64_t classes = logits.shape().cols();
  const double scale = gy.item() / static_cast<double>(count.data<std::int64_t>()[0]);
  const double share = p.label_smoothing / static_cast<double>(classes);
  parallel_for(targets.numel(), rows_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t label = label_at(targets, row);
      const cpu::Out to = out(gx).at(row * classes);
      if (label == p.ignore_index)
        std::fill_n(static_cast<std::byte*>(to.data), static_cast<std::size_t>(classes) * size_of(to.dtype),
                    std::byte{0});
      else
        cpu::kernels().pointwise.losses->row_gradient(in(logits).at(row * logits.pitch()), classes,
                                                      in(statistics).at(2 * row).data, scale, share,
                                                      1 - p.label_smoothing, label, to);
    }
  });
}

}  // namespace

std::string bad_target_text(std::string_view op, const Shape& targets, std::int64_t row, std::int64_t label,
                            std::int64_t classes, std::int64_t ignore_index) {
  return fmt::format("{}: wanted targets from 0 to {} (or ignore_index {}), got {} at {}", op, classes - 1,
                     ignore_index, label, targets.position(row));
}

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
                    "{}: wanted logits (..., V) and targets (...), got {} and {}", where(info.name), logits.shape(),
                    targets.shape());
  const std::int64_t rows = targets.numel();
  Tensor statistics = Tensor::empty(Shape{rows, 2}, accumulate_dtype(logits.dtype()), logits.device());
  Tensor count = Tensor::empty(Shape{1}, DType::i64, logits.device());
  Tensor loss = Tensor::empty(Shape{}, ctx.store_dtype, logits.device());
  kernels.on(logits.device(), info.name).forward(logits, targets, statistics, count, loss, p);
  ctx.save(logits);
  ctx.save(targets);
  ctx.save(statistics);
  ctx.save(count);
  return {loss};
}

void CrossEntropy::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Tensor& logits = ctx.saved(0, info.name);  // no copy: it would be another holder
  Tensor destination = gx.destination_over(0, 0);
  kernels.on(logits.device(), info.name)
      .backward(logits, ctx.saved(1, info.name), ctx.saved(2, info.name), ctx.saved(3, info.name), gy[0], destination,
                p);
}

void register_cross_entropy_cpu() { CrossEntropy::kernels.fill(DeviceType::kCpu, {&forward_rows, &backward_rows}); }

}  // namespace binade::ops
