#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/walk.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/elementwise_loops.h"

namespace binade::cpu {

void run_unary(const UnaryArgs& a) {
  ops::with_op(ops::UnaryOps{}, a.op, [&]<class Op>(ops::OpTag<Op>) {
    const UnaryLoops<Op>& loops = level().elementwise->unary;
    const auto p = a.params.as<typename Op::Params>();
    for_each_chunk(a.walk, [&](const Offsets& at, std::int64_t n) {
      if (a.backward)
        loops.backward(a.in[0].at(at[0]), a.in[1].at(at[1]), a.out.at(at[2]), n, p);
      else
        loops.forward(a.in[0].at(at[0]), a.out.at(at[1]), n, p);
    });
  });
}

void run_binary(const BinaryArgs& a) {
  ops::with_op(ops::BinaryOps{}, a.op, [&]<class Op>(ops::OpTag<Op>) {
    const BinaryLoops<Op>& loops = level().elementwise->binary;
    const auto p = a.params.as<typename Op::Params>();
    for_each_chunk(a.walk, [&](const Offsets& at, std::int64_t n) {
      const Stepped x{a.in[0].at(at[0]), a.walk.steps[0]}, y{a.in[1].at(at[1]), a.walk.steps[1]};
      if (a.direction == 0)
        loops.forward(x, y, a.out.at(at[2]), n, p);
      else
        loops.backward(a.direction - 1, x, y, a.in[2].at(at[2]), a.out.at(at[3]), n, p);
    });
  });
}

void run_where(const WhereArgs& a) {
  for_each_chunk(a.walk, [&](const Offsets& at, std::int64_t n) {
    const auto operand = [&](std::size_t i) { return Stepped{a.in[i].at(at[i]), a.walk.steps[i]}; };
    level().elementwise->where(operand(0), operand(1), operand(2), a.out.at(at[3]), n);
  });
}

}  // namespace binade::cpu
