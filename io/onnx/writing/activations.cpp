#include "binade/io/onnx/writing/activations.h"

#include <cmath>
#include <numbers>

#include "binade/core/ops/activations.h"
#include "binade/core/ops/unary.h"

namespace binade::onnx {

std::string activated(Call& c, const std::string& x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return c.node("Relu", {x});
    case Activation::kGelu: {
      const std::string part = c.node("Erf", {c.node("Div", {x, c.scalar(std::numbers::sqrt2)})});
      const std::string phi = c.node("Mul", {c.node("Add", {part, c.scalar(1)}), c.scalar(0.5)});
      return c.node("Mul", {x, phi});
    }
    case Activation::kGeluTanh: {
      const std::string cube = c.node("Mul", {c.node("Mul", {x, x}), x});
      const std::string sum = c.node("Add", {x, c.node("Mul", {cube, c.scalar(0.044715)})});
      const double factor = std::sqrt(2 / std::numbers::pi);
      const std::string part = c.node("Tanh", {c.node("Mul", {sum, c.scalar(factor)})});
      return c.node("Mul", {x, c.node("Mul", {c.node("Add", {part, c.scalar(1)}), c.scalar(0.5)})});
    }
  }
  no_counterpart("an activation");
}

namespace {

using Text = const std::string&;

using Unary = std::string (*)(Call&, const std::string& x);

OpWriter unary(Unary body) {
  return [body](Call& c) {
    const bool first = c.prefers_channels_first();
    c.result(0, body(c, c.operand(0, first)), first);
  };
}

std::string logistic(Call& c, Text x) { return c.node("Sigmoid", {x}); }

}  // namespace

OpWriters activation_writers() {
  return {
      {&ops::Relu::info, unary([](Call& c, Text x) {
         // Not every program implements ONNX's Relu of whole numbers.
         return c.computing() == DType::i64 ? c.node("Max", {x, c.scalar(0)}) : c.node("Relu", {x});
       })},
      {&ops::Sigmoid::info, unary(logistic)},
      {&ops::Gelu::info, unary([](Call& c, Text x) { return activated(c, x, Activation::kGelu); })},
      {&ops::GeluTanh::info, unary([](Call& c, Text x) { return activated(c, x, Activation::kGeluTanh); })},
      {&ops::Silu::info, unary([](Call& c, Text x) {
         return c.node("Mul", {x, logistic(c, x)});
       })},
      {&ops::Softplus::info, unary([](Call& c, Text x) { return c.node("Softplus", {x}); })},
      {&ops::LeakyRelu::info, unary([](Call& c, Text x) {
         return c.node("LeakyRelu", {x}, {{"alpha", static_cast<double>(c.params<ops::LeakyRelu>().slope)}});
       })},
      {&ops::Elu::info, unary([](Call& c, Text x) {
         return c.node("Elu", {x}, {{"alpha", static_cast<double>(c.params<ops::Elu>().alpha)}});
       })},
      {&ops::Celu::info, unary([](Call& c, Text x) {
         const double alpha = c.params<ops::Celu>().alpha;
         return c.node("Mul", {c.node("Elu", {c.node("Div", {x, c.scalar(alpha)})}), c.scalar(alpha)});
       })},
      {&ops::Selu::info, unary([](Call& c, Text x) {
         return c.node("Selu", {x}, {{"alpha", ops::Selu::kAlpha}, {"gamma", ops::Selu::kScale}});
       })},
      {&ops::Hardswish::info, unary([](Call& c, Text x) { return c.node("HardSwish", {x}); })},
      {&ops::Hardsigmoid::info, unary([](Call& c, Text x) {
         return c.node("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
       })},
      {&ops::Hardtanh::info, unary([](Call& c, Text x) {
         const auto& p = c.params<ops::Hardtanh>();
         return c.node("Clip", {x, c.scalar(p.low), c.scalar(p.high)});
       })},
      {&ops::Mish::info, unary([](Call& c, Text x) {
         return c.node("Mul", {x, c.node("Tanh", {c.node("Softplus", {x})})});
       })},
      {&ops::SoftplusBeta::info, unary([](Call& c, Text x) {
         const auto& p = c.params<ops::SoftplusBeta>();
         const std::string scaled = c.node("Mul", {x, c.scalar(p.beta)});
         const std::string soft = c.node("Div", {c.node("Softplus", {scaled}), c.scalar(p.beta)});
         return c.node("Where", {c.node("Greater", {scaled, c.scalar(p.threshold)}), x, soft});
       })},
      {&ops::Logsigmoid::info,
       unary([](Call& c, Text x) { return c.node("Neg", {c.node("Softplus", {c.node("Neg", {x})})}); })},
      {&ops::Hardshrink::info, unary([](Call& c, Text x) {
         return c.node("Shrink", {x}, {{"lambd", c.params<ops::Hardshrink>().lambda}, {"bias", 0.0}});
       })},
      {&ops::Softshrink::info, unary([](Call& c, Text x) {
         const double lambda = c.params<ops::Softshrink>().lambda;
         return c.node("Shrink", {x}, {{"lambd", lambda}, {"bias", lambda}});
       })},
      {&ops::Tanhshrink::info, unary([](Call& c, Text x) {
         return c.node("Sub", {x, c.node("Tanh", {x})});
       })},
      {&ops::Threshold::info, unary([](Call& c, Text x) {
         const auto& p = c.params<ops::Threshold>();
         return c.node("Where", {c.node("Greater", {x, c.scalar(p.threshold)}), x, c.scalar(p.value)});
       })},
  };
}

}  // namespace binade::onnx
