#include "binade/core/ops/ctc.h"

#include <fmt/format.h>

#include "binade/core/faults.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/elementwise.h"

namespace binade::ops {
namespace {

/// Returns whole numbers as i64, contiguous.
Tensor whole_numbers(const char* what, const Tensor& x) {
  check<DTypeError>(x.dtype() == DType::i64 || x.dtype() == DType::i32 || x.dtype() == DType::u8,
                    "{}: wanted {} of i64, i32 or u8, got {}", where(Ctc::info.name), what, name_of(x.dtype()));
  return x.to(DType::i64).contiguous_copy();
}

std::uint64_t register_lengths(const char* what, std::int64_t most, const char* of) {
  return register_call([op = where(Ctc::info.name).to_string(), what, most, of](std::int64_t n, std::int64_t length) {
    return fmt::format("{}: wanted {} from 0 to {} ({}), got {} for sample {}", op, what, most, of, length, n);
  });
}

/// The arguments of the kernel. `in`: log-probabilities, targets, lengths of inputs and of targets.
CtcArgs arguments(std::span<const Tensor> in, const Ctc::Params& p) {
  const Shape &x = in[0].shape(), &targets = in[1].shape();
  CtcArgs a{.zero_infinity = p.zero_infinity,
            .steps = x[0],
            .samples = x[1],
            .classes = x[2],
            .width = targets[1],
            .blank = p.blank,
            .x = input(in[0]),
            .targets = in[1].data<std::int64_t>(),
            .input_lengths = in[2].data<std::int64_t>(),
            .target_lengths = in[3].data<std::int64_t>()};
  a.target_call = register_call([op = where(Ctc::info.name).to_string(), classes = a.classes, blank = p.blank,
                                 targets](std::int64_t position, std::int64_t label) {
    return fmt::format("{}: wanted targets from 0 to {} other than the blank {}, got {} at {}", op, classes - 1, blank,
                       label, targets.position(position));
  });
  a.input_length_call = register_lengths("input lengths", a.steps, "the steps of the log-probabilities");
  a.target_length_call = register_lengths("target lengths", a.width, "the extent of the targets");
  return a;
}

}  // namespace

Tensors Ctc::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  detail::check_floating(info, in.first(1));
  const Shape &x = in[0].shape(), &targets = in[1].shape();
  check<ShapeError>(x.rank() == 3 && targets.rank() == 2 && targets[0] == x[1] && in[2].shape() == Shape{x[1]} &&
                        in[3].shape() == Shape{x[1]},
                    "{}: wanted log-probabilities (T, N, C), targets (N, S) and two lengths (N), got {}, {}, {} and {}",
                    where(info.name), x, targets, in[2].shape(), in[3].shape());
  check<ArgumentError>(p.blank >= 0 && p.blank < x[2], "{}: wanted a blank from 0 to {}, got {}", where(info.name),
                       x[2] - 1, p.blank);
  const Tensor read[4] = {in[0].contiguous_copy(), whole_numbers("targets", in[1]),
                          whole_numbers("input lengths", in[2]), whole_numbers("target lengths", in[3])};
  Tensor losses = Tensor::empty(Shape{x[1]}, ctx.store_dtype, in[0].device());
  CtcArgs a = arguments(read, p);
  a.out = output(losses);
  kernels(in[0].device()).ctc(a);
  for (const Tensor& t : read) ctx.save(t);
  return {losses};
}

void Ctc::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Tensor read[4] = {ctx.saved(0, info.name), ctx.saved(1, info.name), ctx.saved(2, info.name),
                          ctx.saved(3, info.name)};
  Tensor destination = gx.destination(0);
  CtcArgs a = arguments(read, p);
  a.backward = true;
  a.gy = input(gy[0]);
  a.out = output(destination);
  kernels(read[0].device()).ctc(a);
}

}  // namespace binade::ops
