#include "binade/amp/preflight/survey.h"
#include "binade/core/ops/formulas.h"

namespace binade::amp {
namespace {

template <class Op>
ScalarOp at_one_number(const typename Op::Params& p) {
  const auto value = [p](double x) { return static_cast<double>(Op::value(static_cast<float>(x), p)); };
  const auto gradient = [p, value](double x, double gy) {
    const double saved = Op::saves == ops::Saves::kOutput ? value(x) : Op::saves == ops::Saves::kInput ? x : gy;
    return static_cast<double>(Op::gradient(static_cast<float>(saved), static_cast<float>(gy), p));
  };
  return {value, gradient};
}

}  // namespace

double rounded(double x, DType dtype) {
  switch (dtype) {
    case DType::f16: return float16::from_float(static_cast<float>(x)).to_float();
    case DType::bf16: return bfloat16::from_float(static_cast<float>(x)).to_float();
    case DType::f32: return static_cast<float>(x);
    default: return x;
  }
}

ValueRange rounded(const ValueRange& range, DType dtype) {
  return {rounded(range.low, dtype), rounded(range.high, dtype), range.peaks};
}

std::optional<ScalarOp> scalar_op(const OpCall& call) {
  std::optional<ScalarOp> found;
  const auto find = [&](auto tag) {
    using Op = typename decltype(tag)::type;
    if (const typename Op::Params* p = call.params_of<Op>()) found = at_one_number<Op>(*p);
  };
  ops::for_each_op(ops::UnaryOps{}, find);
  ops::for_each_op(ops::RareUnaryOps{}, find);
  return found;
}

}  // namespace binade::amp
