#include "binade/core/ops/products.h"

#include "binade/cuda/gpu.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void gemm(const cpu::GemmArgs& args) { run(Call::kGemm, args, "product"); }
void column_sums(const void* x, DType dtype, std::int64_t m, std::int64_t n, std::int64_t x_row, void* sums) {
  run(Call::kColumnSums, ColumnSumsCall{x, dtype, m, n, x_row, sums}, "column_sums");
}
void activation_backward(Activation activation, DType dtype, const void* z, const void* gy, void* gz, std::int64_t m,
                         std::int64_t n, void* sums) {
  run(Call::kActivationBackward, ActivationBackwardCall{activation, dtype, z, gy, gz, m, n, sums},
      "activation_backward");
}

/// Where the library multiplies by it itself. Elsewhere one pass does, which adds up the bias's sums on its way.
bool slope_in_product(Activation slope, DType dtype) {
  return slope == Activation::kGeluTanh && is_half(dtype) && gelu_is_fused(10 * facts()->major + facts()->minor);
}

}  // namespace

void register_products() {
  ops::gemm_slot().fill(DeviceType::kCuda, {&gemm, &column_sums, &activation_backward, /*activate=*/nullptr,
                                            /*low_bias=*/true, &slope_in_product});
}

}  // namespace binade::cuda
