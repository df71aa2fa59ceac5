#include "binade/core/ops/channel_parameter.h"

#include "binade/core/step_context.h"

namespace binade::ops {

void check_channel_parameter(const OpInfo& info, const char* name, const Tensor& p, std::int64_t cols) {
  if (!p.defined()) return;
  check<ShapeError>(p.shape() == Shape{cols}, "{}: wanted a {} of shape ({}), one value per channel, got {}",
                    where(info.name), name, cols, p.shape());
  check<DTypeError>(is_floating(p.dtype()), "{}: wanted a floating {}, got {}", where(info.name), name,
                    name_of(p.dtype()));
}

}  // namespace binade::ops
