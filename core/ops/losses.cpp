#include "core/kernels/losses.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/kernels/dispatch.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dice.h"
#include "core/ops/lists.h"
#include "core/ops/reduce.h"
#include "core/parallel.h"

namespace binade::ops {

namespace detail {

void check_loss(const OpInfo& info, std::span<const Tensor> in) {
  check<ArgumentError>(in.size() == 2, "{}: wanted a prediction and a target, got {} inputs", where(info.name),
                       in.size());
  check_elementwise(info, in.first(1), 1);
  check<ShapeError>(in[0].shape() == in[1].shape(), "{}: wanted a target of the prediction's shape {}, got {}",
                    where(info.name), in[0].shape().to_string(), in[1].shape().to_string());
  check<DeviceError>(in[0].device() == in[1].device(), "{}: prediction on {}, target on {}; move one with to(Device)",
                     where(info.name), in[0].device().to_string(), in[1].device().to_string());
}

double divisor_of(Reduction reduction, const Shape& shape) {
  switch (reduction) {
    case Reduction::kMean: return static_cast<double>(shape.numel());
    case Reduction::kSum: return 1;
    case Reduction::kBatchMean: return static_cast<double>(shape.rank() == 0 ? 1 : shape.dim(0));
  }
  return 1;
}

}  // namespace detail

namespace {

constexpr std::int64_t kGrain = 1 << 14;

cpu::In in(const Tensor& t) { return {t.raw(), t.dtype()}; }
cpu::Out out(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }
DType accumulator(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }
const ReduceKernels& reductions(const Tensor& x, const char* op) { return reduce_kernels.on(x.device(), op); }

template <class Op>
struct ElementLossCpu {
  using Params = typename Op::Params;
  static const cpu::LossLoops<Op>& loops() { return cpu::kernels().pointwise.losses->element; }

  static void forward(const Tensor& x_any, const Tensor& t_any, double divisor, Tensor& loss, const Params& p) {
    const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
    const std::int64_t blocks = (x.numel() + kGrain - 1) / kGrain;
    Tensor partial = Tensor::empty(Shape{blocks}, accumulator(x));
    parallel_blocks(blocks, [&](std::int64_t block) {
      const std::int64_t begin = block * kGrain, count = std::min(kGrain, x.numel() - begin);
      loops().sum(in(x).at(begin), in(t).at(begin), count, p, out(partial).at(block).data);
    });
    Tensor total = loss.reshape(Shape{1});
    reductions(x, Op::info.name).sum(partial, total, divisor);
  }

  static void backward(int which, const Tensor& x_any, const Tensor& t_any, const Tensor& gy, double divisor, Tensor& g,
                       const Params& p) {
    const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
    const double scale = gy.item() / divisor;
    parallel_for(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      loops().gradient(which, in(x).at(begin), in(t).at(begin), scale, out(g).at(begin), end - begin, p);
    });
  }
};

// ---- cross entropy ----

std::int64_t label_at(const Tensor& targets, std::int64_t row) {
  switch (targets.dtype()) {
    case DType::i64: return targets.data<std::int64_t>()[row];
    case DType::i32: return targets.data<std::int32_t>()[row];
    default: return targets.data<std::uint8_t>()[row];
  }
}

std::string position_of(const Shape& shape, std::int64_t index) {
  std::string text;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    text = fmt::format("{}{}{}", index % shape.dim(d), text.empty() ? "" : ", ", text);
    index /= shape.dim(d);
  }
  return "(" + text + ")";
}

std::int64_t count_labels(const Tensor& targets, std::int64_t classes, std::int64_t ignore) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < targets.numel(); ++row) {
    const std::int64_t label = label_at(targets, row);
    if (label == ignore) continue;
    check<DataError>(label >= 0 && label < classes,
                     "{}: wanted targets from 0 to {} (or ignore_index {}), got {} at {}",
                     where(CrossEntropy::info.name), classes - 1, ignore, label, position_of(targets.shape(), row));
    ++count;
  }
  return count;
}

std::int64_t rows_grain(std::int64_t classes) {
  return std::max<std::int64_t>(1, (1 << 13) / std::max<std::int64_t>(classes, 1));
}

/// One row's loss from its statistics (maximum, sum of exponentials, sum of distances below the maximum).
template <class C>
C row_loss(const C* three, C target_logit, std::int64_t classes, C smoothing) {
  const C nll = std::log(three[1]) - (1 - smoothing) * (target_logit - three[0]);
  return smoothing > 0 ? nll - smoothing * (three[2] / static_cast<C>(classes)) : nll;
}

std::int64_t cross_entropy_forward(const Tensor& logits, const Tensor& targets, Tensor& losses, Tensor& statistics,
                                   const CrossEntropy::Params& p) {
  const std::int64_t classes = logits.shape().cols();
  const std::int64_t count = count_labels(targets, classes, p.ignore_index);
  dispatch_float(losses.dtype(), "cross_entropy", [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_same_v<C, Compute<C>>)
      parallel_for(targets.numel(), rows_grain(classes), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          C three[3] = {0, 1, 0};
          const std::int64_t label = label_at(targets, row);
          const cpu::In x = in(logits).at(row * logits.pitch());
          if (label != p.ignore_index) cpu::kernels().pointwise.losses->row_statistics(x, classes, three);
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
  return count;
}

void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& statistics, const Tensor& gy,
                            std::int64_t count, Tensor& gx, const CrossEntropy::Params& p) {
  const std::int64_t classes = logits.shape().cols();
  const double scale = gy.item() / static_cast<double>(count);
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

// ---- dice ----

void dice_sums(const Tensor& x_any, const Tensor& t_any, Tensor& sums) {
  const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
  const std::int64_t blocks = (x.numel() + kGrain - 1) / kGrain;
  Tensor partial = Tensor::empty(Shape{blocks, 3}, accumulator(x));
  parallel_blocks(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * kGrain;
    cpu::kernels().pointwise.losses->dice(in(x).at(begin), in(t).at(begin), std::min(kGrain, x.numel() - begin),
                                          out(partial).at(3 * block).data);
  });
  Tensor total = sums.reshape(Shape{1, 3});
  reductions(x, Dice::info.name).sum(partial, total, 1);
}

void dice_gradient(const Tensor& other_any, double offset, double factor, Tensor& g) {
  const Tensor other = other_any.contiguous_copy();
  const bool is_double = g.dtype() == DType::f64;
  parallel_for(g.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::kernels().pointwise.losses->affine(in(other).at(begin), offset, factor, out(g).at(begin), end - begin,
                                            is_double);
  });
}

}  // namespace

Tensors CrossEntropy::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ArgumentError>(in.size() == 2, "{}: wanted logits and targets, got {} inputs", where(info.name), in.size());
  const Tensor& logits = in[0];
  const DType labels = in[1].dtype();
  detail::check_elementwise(info, in.first(1), 1);
  check<DTypeError>(labels == DType::i64 || labels == DType::i32 || labels == DType::u8,
                    "{}: wanted i64, i32 or u8 targets, got {}", where(info.name), name_of(labels));
  check<ArgumentError>(p.label_smoothing >= 0 && p.label_smoothing <= 1, "{}: wanted 0 <= label_smoothing <= 1, got {}",
                       where(info.name), p.label_smoothing);
  const Tensor targets = in[1].contiguous_copy();
  const auto dims = logits.shape().dims();
  check<ShapeError>(logits.rank() >= 1 && targets.shape() == Shape(dims.first(dims.size() - 1)),
                    "{}: wanted logits (..., V) and targets (...), got {} and {}", where(info.name),
                    logits.shape().to_string(), targets.shape().to_string());
  const std::int64_t rows = targets.numel();
  Tensor losses = Tensor::empty(Shape{rows}, accumulator(logits), logits.device());
  Tensor statistics = Tensor::empty(Shape{rows, 2}, losses.dtype(), logits.device());
  const std::int64_t count = kernels.on(logits.device(), info.name).forward(logits, targets, losses, statistics, p);
  Tensor loss = Tensor::empty(Shape{}, ctx.store_dtype, logits.device());
  Tensor total = loss.reshape(Shape{1});
  reductions(logits, info.name).sum(losses, total, static_cast<double>(count));
  ctx.save(logits);
  ctx.save(targets);
  ctx.save(statistics);
  ctx.save(Tensor::from(std::vector<std::int64_t>{count}, Shape{1}));
  return {loss};
}

void CrossEntropy::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Tensor& logits = ctx.saved(0, info.name);
  const std::int64_t count = ctx.saved(3, info.name).data<std::int64_t>()[0];
  Tensor destination = gx.destination(0);
  kernels.on(logits.device(), info.name)
      .backward(logits, ctx.saved(1, info.name), ctx.saved(2, info.name), gy[0], count, destination, p);
}

Tensors Dice::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  detail::check_loss(info, in);
  check<ArgumentError>(p.smooth >= 0, "{}: wanted smooth >= 0, got {}", where(info.name), p.smooth);
  Tensor sums = Tensor::empty(Shape{3}, accumulator(in[0]), in[0].device());
  kernels.on(in[0].device(), info.name).sums(in[0], in[1], sums);
  const double n = 2 * sums.at(0) + p.smooth, d = sums.at(1) + sums.at(2) + p.smooth;
  ctx.save(in[0]);
  ctx.save(in[1]);
  ctx.save(sums);
  return {Tensor::scalar(1 - n / d, ctx.store_dtype, in[0].device())};
}

void Dice::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& sums = ctx.saved(2, info.name);
  const double n = 2 * sums.at(0) + p.smooth, d = sums.at(1) + sums.at(2) + p.smooth;
  const double g = gy[0].item();
  for (int i = 0; i < 2; ++i) {
    if (!gx.needs(i)) continue;
    Tensor destination = gx.destination(i);
    const Tensor& other = ctx.saved(1 - i, info.name);
    kernels.on(other.device(), info.name).gradient(other, g * n / d / d, 2 * g / d, destination);
  }
}

void register_losses_cpu() {
  for_each_op(ElementLosses{}, []<class Op>(OpTag<Op>) {
    element_loss_kernels<Op>.fill(DeviceType::kCpu, {&ElementLossCpu<Op>::forward, &ElementLossCpu<Op>::backward});
  });
  CrossEntropy::kernels.fill(DeviceType::kCpu, {&cross_entropy_forward, &cross_entropy_backward});
  Dice::kernels.fill(DeviceType::kCpu, {&dice_sums, &dice_gradient});
}

}  // namespace binade::ops
