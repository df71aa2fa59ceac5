#include "binade/core/kernels/chunk.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/walk.h"
#include "binade/core/ops/formulas.h"

/// Rare ops (core/ops/lists.h), computed in double for every dtype. Compiled once, for the baseline instruction set.
namespace binade::cpu {
namespace {

using generic::Reader;
using generic::Writer;

template <class Op>
void unary(const UnaryArgs& a) {
  const auto p = a.params.as<typename Op::Params>();
  for_each_chunk(a.walk, [&](const Offsets& at, std::int64_t n) {
    Reader<double> xs(a.in[0].at(at[0]));
    if (a.backward) {
      Reader<double> gys(a.in[1].at(at[1]));
      Writer<double> gxs(a.out.at(at[2]));
      generic::map_elements(
          n, gxs, [p](double x, double gy) { return Op::gradient(x, gy, p); }, xs, gys);
    } else {
      Writer<double> ys(a.out.at(at[1]));
      generic::map_elements(
          n, ys, [p](double x) { return Op::value(x, p); }, xs);
    }
  });
}

template <class Op>
void binary(const BinaryArgs& args) {
  const auto p = args.params.as<typename Op::Params>();
  for_each_chunk(args.walk, [&](const Offsets& at, std::int64_t n) {
    Reader<double> as(args.in[0].at(at[0]), args.walk.steps[0], n), bs(args.in[1].at(at[1]), args.walk.steps[1], n);
    if (args.direction == 0) {
      Writer<double> ys(args.out.at(at[2]));
      return generic::map_elements(
          n, ys, [p](double a, double b) { return Op::value(a, b, p); }, as, bs);
    }
    Reader<double> gys(args.in[2].at(at[2]), args.walk.steps[2], n);
    Writer<double> gs(args.out.at(at[3]));
    if (args.direction == 1)
      generic::map_elements(
          n, gs, [p](double a, double b, double gy) { return Op::gradient_a(a, b, gy, p); }, as, bs, gys);
    else
      generic::map_elements(
          n, gs, [p](double a, double b, double gy) { return Op::gradient_b(a, b, gy, p); }, as, bs, gys);
  });
}

}  // namespace

void run_rare_unary(const UnaryArgs& a) {
  ops::with_op(ops::RareUnaryOps{}, a.op, [&]<class Op>(ops::OpTag<Op>) { unary<Op>(a); });
}

void run_rare_binary(const BinaryArgs& a) {
  ops::with_op(ops::RareBinaryOps{}, a.op, [&]<class Op>(ops::OpTag<Op>) { binary<Op>(a); });
}

}  // namespace binade::cpu
