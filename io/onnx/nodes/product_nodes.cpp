#include "binade/io/onnx/nodes/node.h"
#include "binade/io/onnx/nodes/windows.h"

namespace binade::onnx {
namespace {

/// Matrix product. A vector a counts as one row, a vector b as one column, as in NumPy.
Variable product(const Variable& a, const Variable& b) {
  Variable y = matmul(rank_of(a) == 1 ? unsqueeze(a, 0) : a, rank_of(b) == 1 ? unsqueeze(b, -1) : b);
  if (rank_of(b) == 1) y = squeeze(y, -1);
  return rank_of(a) == 1 ? squeeze(y, rank_of(b) == 1 ? -1 : -2) : y;
}

Variable gemm(const Node& n) {
  const Variable y = n.number("alpha", 1) *
                     matmul(n[0], n[1],
                            {.transpose_a = n.integer("transA", 0) != 0, .transpose_b = n.integer("transB", 0) != 0});
  return n.has(2) ? y + n.number("beta", 1) * n[2] : y;
}

/// Whole numbers minus their zero point, in f64, in which sums of products of 8-bit numbers are exact.
Variable without_zero(const Variable& x, const Variable& zero) {
  return zero.defined() ? cast(x, DType::f64) - cast(zero, DType::f64) : cast(x, DType::f64);
}

/// Reshapes a scale or zero point, given per position of an axis or per block of it, to broadcast to x.
Variable along(const Node& n, const Variable& x, const Variable& scale) {
  if (!scale.defined() || scale.shape().numel() == 1) return scale;
  const int axis = from_start(n.integer("axis", 1), rank_of(x));
  if (const std::int64_t block = n.integer("block_size", 0); block != 0) return repeat_interleave(scale, block, axis);
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank_of(x)), 1);
  dims[static_cast<std::size_t>(axis)] = -1;
  return reshape(scale, dims);
}

Variable dequantized(const Variable& x, const Variable& scale, const Variable& zero) {
  return scale * (zero.defined() ? cast(x, scale.dtype()) - cast(zero, scale.dtype()) : cast(x, scale.dtype()));
}

Variable quantized(const Variable& x, const Variable& scale, const Variable& zero) {
  const Variable y = round(x / scale);
  return cast(clamp(zero.defined() ? y + cast(zero, y.dtype()) : y, 0, 255), DType::u8);
}

Outputs quantized_by_range(const Node& n) {
  const Variable low = minimum(min(n[0]), Tensor::scalar(0)), high = maximum(max(n[0]), Tensor::scalar(0));
  const Variable scale = (high - low) / 255.0, zero = cast(clamp(round(-low / scale), 0, 255), DType::u8);
  return {quantized(n[0], scale, zero), scale, zero};
}

Variable filter_zero(const Variable& zero) { return zero.defined() ? reshape(zero, {-1, 1, 1, 1}) : zero; }

Variable quantized_conv(const Node& n) {
  const Variable x = dequantized(n[0], n[1], n[2]);
  const Variable w = dequantized(n[3], reshape(n[4], {-1, 1, 1, 1}), filter_zero(n[5]));
  unsupported_if(n.has(8), "a quantized bias");
  return quantized(conv(n, x, w, {}), n[6], n[7]);
}

}  // namespace

Table product_nodes() {
  return {
      {"MatMul", one([](const Node& n) { return product(n[0], n[1]); })},
      {"Gemm", one(gemm)},
      {"Einsum", one([](const Node& n) { return like(n[0], einsum(n.text("equation", ""), n.all())); })},
      {"Det", one([](const Node& n) { return det(n[0]); })},
      {"MatMulInteger", one([](const Node& n) {
         return cast(product(without_zero(n[0], n[2]), without_zero(n[1], n[3])), DType::i32);
       })},
      {"ConvInteger", one([](const Node& n) {
         return cast(conv(n, without_zero(n[0], n[2]), without_zero(n[1], filter_zero(n[3])), {}), DType::i32);
       })},
      {"DequantizeLinear", one([](const Node& n) {
         const Variable y = dequantized(n[0], along(n, n[0], n[1]), along(n, n[0], n[2]));
         return cast(y, n.dtype("output_dtype", y.dtype()));
       })},
      {"QuantizeLinear", one([](const Node& n) {
         const std::string dtype = n.text("output_dtype", "undefined");
         unsupported_if(dtype != "undefined" && dtype != "u8", "no dtype " + dtype);
         return quantized(n[0], along(n, n[0], n[1]), along(n, n[0], n[2]));
       })},
      {"DynamicQuantizeLinear", quantized_by_range},
      {"QLinearMatMul", one([](const Node& n) {
         return quantized(matmul(dequantized(n[0], n[1], n[2]), dequantized(n[3], n[4], n[5])), n[6], n[7]);
       })},
      {"QLinearConv", one(quantized_conv)},
  };
}

}  // namespace binade::onnx
