#include "binade/core/ops/products.h"

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"

namespace binade::ops {

void bias_gradient(const Tensor& gy, GradSink& gx, int i) {
  InputGradient gb(gx, i, accumulate_dtype(gy.dtype()));
  if (!gb.wanted()) return;
  kernels(gy.device()).column_sums({gy.raw(), gy.dtype(), gy.shape().rows(), gy.shape().cols(), gy.pitch(), gb.raw()});
  gb.finish();
}

}  // namespace binade::ops
