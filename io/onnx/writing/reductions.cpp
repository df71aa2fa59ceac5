#include <algorithm>

#include "binade/core/ops/cumulate.h"
#include "binade/core/ops/fold.h"
#include "binade/core/ops/order.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {
namespace {

std::int64_t from_start(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

/// The operand of a reduction: x in one order of axes, and the reduced axes in that order.
struct Reduced {
  std::string x{};
  Integers axes{};
  bool first = false;  ///< x is (N, C, H, W)
  bool first_result = false;
};

/// If an image exists only as (N, C, H, W), reads it so, provided that the result has four axes or is (N, C).
Reduced reduced(Call& c, const std::vector<int>& axes, bool keepdim, DType dtype) {
  Reduced r;
  const int rank = c.in(0).rank();
  for (const int axis : axes) r.axes.push_back(from_start(axis, rank));
  if (axes.empty())
    for (int i = 0; i < rank; ++i) r.axes.push_back(i);
  Integers sorted = r.axes;
  std::sort(sorted.begin(), sorted.end());
  r.first = rank == 4 && (keepdim || sorted == Integers{1, 2}) && c.only_channels_first(0);
  r.first_result = r.first && keepdim;
  if (r.first)
    for (std::int64_t& axis : r.axes) axis = axis == 0 ? 0 : axis == 3 ? 1 : axis + 1;
  r.x = c.operand(0, r.first, dtype);
  return r;
}

std::string over(Call& c, const char* op, const std::string& x, const Integers& axes, bool keepdim) {
  const std::int64_t keep = keepdim ? 1 : 0;
  if (std::string(op) == "ReduceSum") return c.node(op, {x, c.list(axes)}, {{"keepdims", keep}});
  return c.node(op, {x}, {{"axes", axes}, {"keepdims", keep}});
}

template <class Op>
void reduce(Call& c, const char* op) {
  const auto& p = c.params<Op>();
  const Reduced r = reduced(c, p.axes, p.keepdim, c.computing());
  if (c.in(0).rank() == 0) return c.result(0, c.node("Identity", {r.x}));
  c.result(0, over(c, op, r.x, r.axes, p.keepdim), r.first_result);
}

template <class Op>
void reduce_along(Call& c, const char* op) {
  const auto& p = c.params<Op>();
  const Reduced r = reduced(c, {p.axis}, p.keepdim, c.computing());
  const bool scalar = c.in(0).rank() == 0;
  c.result(0, scalar ? c.node("Identity", {r.x}) : over(c, op, r.x, r.axes, p.keepdim), r.first_result);
  if (scalar) return c.result_as(1, c.scalar(0, DType::i64), DType::i64);
  const std::int64_t keep = p.keepdim ? 1 : 0;
  const char* position = std::string(op) == "ReduceMax" ? "ArgMax" : "ArgMin";
  c.result_as(1, c.node(position, {r.x}, {{"axis", r.axes[0]}, {"keepdims", keep}}), DType::i64, r.first_result);
}

/// Writes any() and all() of truth values as the maximum and minimum of 0 and 1.
template <class Op>
void truth(Call& c, const char* op) {
  const auto& p = c.params<Op>();
  Reduced r = reduced(c, p.axes, p.keepdim, DType::boolean);
  const std::string x = c.cast(r.x, DType::boolean, DType::i32);
  const std::string y = c.in(0).rank() == 0 ? x : over(c, op, x, r.axes, p.keepdim);
  c.result_as(0, c.cast(y, DType::i32, DType::boolean), DType::boolean, r.first_result);
}

template <class Op>
void position(Call& c, const char* op) {
  const auto& p = c.params<Op>();
  std::string x = c.number(0);
  const int rank = c.in(0).rank();
  if (!p.axis) x = c.node("Reshape", {x, c.list({-1})});
  const std::int64_t axis = p.axis ? from_start(*p.axis, rank) : 0;
  std::string y = c.node(op, {x}, {{"axis", axis}, {"keepdims", std::int64_t{p.keepdim || !p.axis ? 1 : 0}}});
  if (!p.axis) y = c.node("Reshape", {y, c.list(Integers(p.keepdim ? static_cast<std::size_t>(rank) : 0U, 1))});
  c.result_as(0, y, DType::i64);
}

void norm(Call& c) {
  const auto& p = c.params<ops::Norm>();
  const Reduced r = reduced(c, p.axes, p.keepdim, c.computing());
  std::string y;
  if (p.p == 1 || p.p == 2) {
    y = over(c, p.p == 1 ? "ReduceL1" : "ReduceL2", r.x, r.axes, p.keepdim);
  } else {
    const std::string powers = c.node("Pow", {c.node("Abs", {r.x}), c.scalar(p.p)});
    y = c.node("Pow", {over(c, "ReduceSum", powers, r.axes, p.keepdim), c.scalar(1 / p.p)});
  }
  c.result(0, y, r.first_result);
}

void cumulate(Call& c) {
  const auto& p = c.params<ops::Cumulate>();
  no_counterpart_if(p.how != Cumulation::kSum, "opset 17 has cumulative sums only");
  const std::string axis = c.tensor(
      Tensor::scalar(static_cast<double>(from_start(p.axis, c.in(0).rank())), DType::i64));
  c.result(0, c.node("CumSum", {c.number(0), axis}, {{"reverse", std::int64_t{p.reverse ? 1 : 0}}}));
}

template <class Op>
void soft(Call& c, const char* op) {
  const int rank = c.in(0).rank();
  const bool first = c.prefers_channels_first();
  std::int64_t axis = from_start(c.params<Op>().axis, rank);
  if (first) axis = axis == 0 ? 0 : axis == 3 ? 1 : axis + 1;
  const std::string x = c.operand(0, first);
  c.result(0, rank == 0 ? c.node("Sub", {x, x}) : c.node(op, {x}, {{"axis", axis}}), first);
}

void sorted(Call& c) {
  const auto& p = c.params<ops::Sort>();
  no_counterpart_if(p.median, "no operator finds a median");
  const std::int64_t axis = from_start(p.axis, c.in(0).rank()), k = p.k < 0 ? c.in(0).dim(static_cast<int>(axis)) : p.k;
  const std::vector<std::string> both = c.node(2, "TopK", {c.number(0), c.list({k})},
                                               {{"axis", axis}, {"largest", std::int64_t{p.descending ? 1 : 0}}});
  c.result_as(0, both[1], DType::i64);
}

}  // namespace

OpWriters reduction_writers() {
  return {
      {&ops::Sum::info, [](Call& c) { reduce<ops::Sum>(c, "ReduceSum"); }},
      {&ops::Mean::info, [](Call& c) { reduce<ops::Mean>(c, "ReduceMean"); }},
      {&ops::Max::info, [](Call& c) { reduce<ops::Max>(c, "ReduceMax"); }},
      {&ops::Min::info, [](Call& c) { reduce<ops::Min>(c, "ReduceMin"); }},
      {&ops::Prod::info, [](Call& c) { reduce<ops::Prod>(c, "ReduceProd"); }},
      {&ops::MaxAlong::info, [](Call& c) { reduce_along<ops::MaxAlong>(c, "ReduceMax"); }},
      {&ops::MinAlong::info, [](Call& c) { reduce_along<ops::MinAlong>(c, "ReduceMin"); }},
      {&ops::Any::info, [](Call& c) { truth<ops::Any>(c, "ReduceMax"); }},
      {&ops::All::info, [](Call& c) { truth<ops::All>(c, "ReduceMin"); }},
      {&ops::ArgMax::info, [](Call& c) { position<ops::ArgMax>(c, "ArgMax"); }},
      {&ops::ArgMin::info, [](Call& c) { position<ops::ArgMin>(c, "ArgMin"); }},
      {&ops::Norm::info, norm},
      {&ops::Cumulate::info, cumulate},
      {&ops::Softmax::info, [](Call& c) { soft<ops::Softmax>(c, "Softmax"); }},
      {&ops::LogSoftmax::info, [](Call& c) { soft<ops::LogSoftmax>(c, "LogSoftmax"); }},
      {&ops::Sort::info, sorted},
  };
}

}  // namespace binade::onnx
