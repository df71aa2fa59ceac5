#include <numbers>

#include "binade/io/onnx/nodes/node.h"

/// Random numbers, whose values ONNX does not specify, and the windows of signal processing.
namespace binade::onnx {
namespace {

Outputs dropped(const Node& n) {
  const bool training = n.has(2) && n[2].item() != 0;
  const double p = n.has(1) ? n[1].item() : n.number("ratio", 0.5);
  const Variable ones = ones_like(n[0].value()), kept = training ? dropout(ones, p) : ones;
  return {n[0] * kept, kept != 0};
}

Variable uniform(const Node& n, const Shape& shape, DType dtype) {
  const double low = n.number("low", 0), high = n.number("high", 1);
  return low + (high - low) * Variable(rand(shape, dtype));
}

Variable gaussian(const Node& n, const Shape& shape, DType dtype) {
  return normal(n.number("mean", 0), n.number("scale", 1), shape, dtype);
}

/// Calls f with the shape and dtype in the attributes of a node.
Function of_attributes(Variable (*f)(const Node&, const Shape&, DType)) {
  return one([f](const Node& n) { return f(n, Shape(n.integers("shape")), n.dtype("dtype", DType::f32)); });
}
/// Calls f with the shape of the input.
Function of_input(Variable (*f)(const Node&, const Shape&, DType)) {
  return one([f](const Node& n) { return f(n, n[0].shape(), n.dtype("dtype", n[0].dtype())); });
}

/// A sum of cosines: a0 - a1 cos(2 pi i / period) + a2 cos(4 pi i / period).
Function window(double a0, double a1, double a2) {
  return one([=](const Node& n) {
    const std::int64_t size = n.whole(0), period = n.integer("periodic", 1) != 0 ? size : size - 1;
    const Variable angle = cast(arange(size), DType::f64) * (2 * std::numbers::pi / static_cast<double>(period));
    return cast(a0 - a1 * cos(angle) + a2 * cos(2.0 * angle), n.dtype("output_datatype", DType::f32));
  });
}

}  // namespace

Table random_nodes() {
  return {
      {"Bernoulli", one([](const Node& n) { return cast(bernoulli(n[0].value()), n.dtype("dtype", n[0].dtype())); })},
      {"Dropout", dropped},
      {"Multinomial", one([](const Node& n) {
         const Variable drawn = multinomial(exp(n[0]).value(), n.integer("sample_size", 1), true);
         return cast(drawn, n.dtype("dtype", DType::i32));
       })},
      {"RandomNormal", of_attributes(gaussian)},
      {"RandomNormalLike", of_input(gaussian)},
      {"RandomUniform", of_attributes(uniform)},
      {"RandomUniformLike", of_input(uniform)},
      {"BlackmanWindow", window(0.42, 0.5, 0.08)},
      {"HammingWindow", window(25.0 / 46, 21.0 / 46, 0)},
      {"HannWindow", window(0.5, 0.5, 0)},
  };
}

}  // namespace binade::onnx
