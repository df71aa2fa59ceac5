#include "binade/core/ops/fft.h"
#include "binade/core/ops/linalg_solve.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/projections.h"
#include "binade/io/onnx/writing/activations.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {
namespace {

/// An operand with its last two axes exchanged.
std::string swapped(Call& c, int i) {
  const int rank = c.in(i).rank();
  Integers order;
  for (int d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.transposed(i, order);
}

/// In a 16-bit product, a GELU reads the sum rounded to 16 bits (core/ops/linear.h).
std::string activation(Call& c, const std::string& z, Activation a) {
  const bool rounded = is_half(c.out().dtype()) && (a == Activation::kGelu || a == Activation::kGeluTanh);
  if (!rounded) return activated(c, z, a);
  return activated(c, c.cast(c.cast(z, c.computing(), c.out().dtype()), c.out().dtype(), c.computing()), a);
}

void linear(Call& c) {
  const auto& p = c.params<ops::Linear>();
  no_counterpart_if(p.fp8.has_value() && c.in(0).dtype() == DType::bf16, "products in 8 bits");
  std::string y;
  if (c.in(0).rank() == 2) {
    y = c.node("Gemm", {c.number(0), c.number(1), c.has(2) ? c.number(2) : ""}, {{"transB", std::int64_t{1}}});
  } else {
    y = c.node("MatMul", {c.number(0), c.transposed(1, {1, 0})});
    if (c.has(2)) y = c.node("Add", {y, c.number(2)});
  }
  c.result(0, activation(c, y, p.activation));
}

/// Concatenates the three weights, so that one product suffices.
void projections(Call& c) {
  const std::int64_t rows = 0;
  const std::string w = c.node("Concat", {c.number(1), c.number(2), c.number(3)}, {{"axis", rows}});
  const std::string columns = c.node("Transpose", {w}, {{"perm", Integers{1, 0}}});
  std::string y = c.node("MatMul", {c.number(0), columns});
  if (c.has(4)) y = c.node("Add", {y, c.node("Concat", {c.number(4), c.number(5), c.number(6)}, {{"axis", rows}})});
  c.result(0, y);
}

void matmul(Call& c) {
  const auto& p = c.params<ops::Matmul>();
  const std::string a = p.transpose_a ? swapped(c, 0) : c.number(0);
  c.result(0, c.node("MatMul", {a, p.transpose_b ? swapped(c, 1) : c.number(1)}));
}

void fft(Call& c) {
  const auto& p = c.params<ops::Fft>();
  no_counterpart_if(p.kind == FftKind::kToReal, "DFT of opset 17 has no inverse to real numbers");
  no_counterpart_if(p.interior != 1, "a gradient of a transform");
  const bool real = p.kind == FftKind::kFromReal;
  std::string x = c.number(0);
  Integers dims(c.in(0).shape().dims().begin(), c.in(0).shape().dims().end());
  const auto rank = static_cast<std::int64_t>(dims.size()) - (real ? 0 : 1);  // without the axis of complex parts
  const std::int64_t axis = p.axis < 0 ? p.axis + rank : p.axis;
  no_counterpart_if(p.count != fft_outputs(p.kind, p.n), "a cut transform");
  if (real) x = c.node("Unsqueeze", {x, c.list({-1})});
  // DFT requires a batch axis before the others.
  x = c.node("Unsqueeze", {x, c.list({0})});
  const std::string n = c.scalar(static_cast<double>(p.n), DType::i64);
  std::string y = c.node(
      "DFT", {x, n},
      {{"axis", axis + 1}, {"inverse", std::int64_t{p.inverse ? 1 : 0}}, {"onesided", std::int64_t{real ? 1 : 0}}});
  y = c.node("Squeeze", {y, c.list({0})});
  const double factor = p.inverse ? p.scale * static_cast<double>(p.n) : p.scale;
  c.result(0, factor == 1 ? y : c.node("Mul", {y, c.scalar(factor)}));
}

}  // namespace

OpWriters product_writers() {
  return {
      {&ops::Linear::info, linear}, {&ops::Projections::info, projections},
      {&ops::Matmul::info, matmul}, {&ops::Det::info, [](Call& c) { c.result(0, c.node("Det", {c.number(0)})); }},
      {&ops::Fft::info, fft},
  };
}

}  // namespace binade::onnx
