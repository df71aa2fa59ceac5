#include "binade/core/ops/truth.h"

#include "binade/io/onnx/writing/recorder.h"

/// Comparisons and logical ops.
namespace binade::onnx {
namespace {

/// The dtype in which two operands are compared: f32 or f64 for two floating ones, which is exact; f64 for a whole and
/// a floating one; i64 for whole ones.
DType compared_in(const Call& c) {
  bool whole = false, floating = false;
  for (int i = 0; i < c.inputs(); ++i) (is_floating(c.in(i).dtype()) ? floating : whole) = true;
  return whole && floating ? DType::f64 : c.computing();
}

void compare(Call& c, const char* op, bool negated = false) {
  const bool first = c.prefers_channels_first();
  const DType dtype = compared_in(c);
  const std::string a = c.operand(0, first, dtype);
  std::string y = c.node(op, {a, c.operand(1, first, dtype)});
  if (negated) y = c.node("Not", {y});
  c.result_as(0, y, DType::boolean, first);
}

void logical(Call& c, const char* op) {
  const bool first = c.prefers_channels_first();
  const std::string a = c.operand(0, first, DType::boolean);
  c.result_as(0, c.node(op, {a, c.operand(1, first, DType::boolean)}), DType::boolean, first);
}

void negate(Call& c) {
  const bool first = c.prefers_channels_first();
  c.result_as(0, c.node("Not", {c.operand(0, first, DType::boolean)}), DType::boolean, first);
}

/// Bitwise ops of bools. For other numbers, ONNX has operators from opset 18 on.
void bits(Call& c, void (*of_bools)(Call&)) {
  no_counterpart_if(c.out().dtype() != DType::boolean, "opset 17 has no operator for bits of whole numbers");
  of_bools(c);
}

/// Writes tests for NaN and infinity. Whole numbers are tested as f32, in which they are finite.
void finite(Call& c, bool nan, bool infinite, bool negated) {
  const bool first = c.prefers_channels_first();
  const std::string x = c.operand(0, first, c.computing() == DType::i64 ? DType::f32 : c.computing());
  std::string y;
  if (nan) y = c.node("IsNaN", {x});
  if (infinite) {
    const std::string z = c.node("IsInf", {x});
    y = y.empty() ? z : c.node("Or", {y, z});
  }
  if (negated) y = c.node("Not", {y});
  c.result_as(0, y, DType::boolean, first);
}

}  // namespace

OpWriters truth_writers() {
  return {
      {&ops::Equal::info, [](Call& c) { compare(c, "Equal"); }},
      {&ops::NotEqual::info, [](Call& c) { compare(c, "Equal", true); }},
      {&ops::Less::info, [](Call& c) { compare(c, "Less"); }},
      {&ops::LessEqual::info, [](Call& c) { compare(c, "LessOrEqual"); }},
      {&ops::Greater::info, [](Call& c) { compare(c, "Greater"); }},
      {&ops::GreaterEqual::info, [](Call& c) { compare(c, "GreaterOrEqual"); }},
      {&ops::LogicalAnd::info, [](Call& c) { logical(c, "And"); }},
      {&ops::LogicalOr::info, [](Call& c) { logical(c, "Or"); }},
      {&ops::LogicalXor::info, [](Call& c) { logical(c, "Xor"); }},
      {&ops::LogicalNot::info, negate},
      {&ops::BitwiseAnd::info, [](Call& c) { bits(c, [](Call& b) { logical(b, "And"); }); }},
      {&ops::BitwiseOr::info, [](Call& c) { bits(c, [](Call& b) { logical(b, "Or"); }); }},
      {&ops::BitwiseXor::info, [](Call& c) { bits(c, [](Call& b) { logical(b, "Xor"); }); }},
      {&ops::BitwiseNot::info, [](Call& c) { bits(c, negate); }},
      {&ops::IsNan::info, [](Call& c) { finite(c, true, false, false); }},
      {&ops::IsInf::info, [](Call& c) { finite(c, false, true, false); }},
      {&ops::IsFinite::info, [](Call& c) { finite(c, true, true, true); }},
  };
}

}  // namespace binade::onnx
