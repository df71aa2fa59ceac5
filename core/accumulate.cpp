#include "binade/core/accumulate.h"

#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"

namespace binade {

void accumulate(Tensor& into, const Tensor& from) {
  check<ShapeError>(into.shape() == from.shape(), "accumulate: wanted {}, got {}", into.shape(), from.shape());
  check<DeviceError>(into.device() == from.device(), "accumulate: wanted a tensor on {}, got one on {}", into.device(),
                     from.device());
  const bool flat = into.contiguous() && from.contiguous();
  if (into.numel() > 0)
    kernels(into.device())
        .accumulate({output_rows(into), input_rows(from), flat ? 1 : into.shape().rows(),
                     flat ? into.numel() : into.shape().cols()});
  into.bump_version();
}

}  // namespace binade
