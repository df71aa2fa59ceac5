#include <limits>

#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {
namespace {

Function of(Variable (*f)(const Variable&)) {
  return one([f](const Node& n) { return f(n[0]); });
}
Function of(Variable (*f)(const Variable&, const Variable&)) {
  return one([f](const Node& n) { return f(n[0], n[1]); });
}
/// Combines all inputs by f, from left to right.
Function fold(Variable (*f)(const Variable&, const Variable&)) {
  return one([f](const Node& n) {
    Variable y = n[0];
    for (int i = 1; i < n.inputs(); ++i) y = f(y, n[i]);
    return y;
  });
}
Variable add(const Variable& a, const Variable& b) { return a + b; }

Variable quotient(const Node& n) {
  if (is_floating(n[0].dtype())) return n[0] / n[1];
  return floor_divide(n[0] - fmod(n[0], n[1]), n[1]);  // ONNX rounds the quotient of whole numbers towards 0
}

Variable clip(const Node& n) {
  Variable y = n[0];
  if (n.has(1)) y = maximum(y, n[1]);
  if (n.has(2)) y = minimum(y, n[2]);
  return y;
}

Variable infinite(const Node& n) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const bool above = n.integer("detect_positive", 1) != 0, below = n.integer("detect_negative", 1) != 0;
  return above && below ? isinf(n[0]) : n[0] == (above ? kInf : -kInf);
}

Variable shrink(const Node& n) {
  const Variable y = hardshrink(n[0], n.number("lambd", 0.5));
  return y - n.number("bias", 0) * sign(y);
}

Table activations() {
  return {
      {"Celu", one([](const Node& n) { return celu(n[0], n.number("alpha", 1)); })},
      {"Elu", one([](const Node& n) { return elu(n[0], n.number("alpha", 1)); })},
      {"Gelu",
       one([](const Node& n) { return n.text("approximate", "none") == "tanh" ? gelu_tanh(n[0]) : gelu(n[0]); })},
      {"HardSigmoid",
       one([](const Node& n) { return clamp(n.number("alpha", 0.2) * n[0] + n.number("beta", 0.5), 0, 1); })},
      {"HardSwish", of(hardswish)},
      {"LeakyRelu", one([](const Node& n) { return leaky_relu(n[0], n.number("alpha", 0.01)); })},
      {"Mish", of(mish)},
      {"PRelu", of(prelu)},
      {"Relu", of(relu)},
      {"Selu", one([](const Node& n) {
         if (!n.given("alpha") && !n.given("gamma")) return selu(n[0]);
         return n.number("gamma", 1.0507009873554805) * elu(n[0], n.number("alpha", 1.6732632423543772));
       })},
      {"Shrink", one(shrink)},
      {"Sigmoid", of(sigmoid)},
      {"Softplus", one([](const Node& n) { return softplus(n[0]); })},
      {"Softsign", one([](const Node& n) { return n[0] / (abs(n[0]) + 1.0); })},
      {"SwiGLU", one([](const Node& n) { return n[0] * sigmoid(n.number("alpha", 1) * n[0]) * n[1]; })},
      {"Swish", one([](const Node& n) { return n[0] * sigmoid(n.number("alpha", 1) * n[0]); })},
      {"ThresholdedRelu", one([](const Node& n) { return threshold(n[0], n.number("alpha", 1), 0); })},
  };
}

Table functions() {
  return {
      {"Abs", of(abs)},
      {"Acos", of(acos)},
      {"Acosh", of(acosh)},
      {"Asin", of(asin)},
      {"Asinh", of(asinh)},
      {"Atan", of(atan)},
      {"Atanh", of(atanh)},
      {"Ceil", of(ceil)},
      {"Cos", of(cos)},
      {"Cosh", of(cosh)},
      {"Erf", of(erf)},
      {"Exp", of(exp)},
      {"Floor", of(floor)},
      {"Log", of(log)},
      {"Round", of(round)},
      {"Reciprocal", of(reciprocal)},
      {"Sign", of(sign)},
      {"Sin", of(sin)},
      {"Sinh", of(sinh)},
      {"Sqrt", of(sqrt)},
      {"Tan", of(tan)},
      {"Tanh", of(tanh)},
      {"IsNaN", of(isnan)},
      {"IsInf", one(infinite)},
      {"Not", of(logical_not)},
      {"BitwiseNot", of(bitwise_not)},
      {"Neg", one([](const Node& n) { return -n[0]; })},
      {"Identity", [](const Node& n) { return n.all(); }},
      {"Clip", one(clip)},
      {"Cast", one([](const Node& n) { return cast(n[0], n.dtype("to", DType::f32)); })},
      {"CastLike", one([](const Node& n) { return cast(n[0], n[1].dtype()); })},
      {"BitCast", one([](const Node& n) { return bitcast(n[0], n.dtype("to", DType::f32)); })},
  };
}

Table operands() {
  return {
      {"Add", of(add)},
      {"Sub", one([](const Node& n) { return n[0] - n[1]; })},
      {"Mul", one([](const Node& n) { return n[0] * n[1]; })},
      {"Div", one(quotient)},
      {"Mod", one([](const Node& n) { return n.integer("fmod", 0) != 0 ? fmod(n[0], n[1]) : remainder(n[0], n[1]); })},
      {"Pow", one([](const Node& n) { return like(n[0], pow(n[0], n[1])); })},
      {"Max", fold(maximum)},
      {"Min", fold(minimum)},
      {"Sum", fold(add)},
      {"Mean", one([](const Node& n) { return fold(add)(n)[0] / static_cast<double>(n.inputs()); })},
      {"And", of(logical_and)},
      {"Or", of(logical_or)},
      {"Xor", of(logical_xor)},
      {"Equal", of(eq)},
      {"Greater", of(gt)},
      {"GreaterOrEqual", of(ge)},
      {"Less", of(lt)},
      {"LessOrEqual", of(le)},
      {"BitwiseAnd", of(bitwise_and)},
      {"BitwiseOr", of(bitwise_or)},
      {"BitwiseXor", of(bitwise_xor)},
      {"BitShift", one([](const Node& n) {
         return n.text("direction", "") == "LEFT" ? bitwise_left_shift(n[0], n[1]) : bitwise_right_shift(n[0], n[1]);
       })},
      {"Where", one([](const Node& n) { return where(n[0], n[1], n[2]); })},
  };
}

}  // namespace

Table elementwise_nodes() {
  Table all = activations();
  all.merge(functions());
  all.merge(operands());
  return all;
}

}  // namespace binade::onnx
