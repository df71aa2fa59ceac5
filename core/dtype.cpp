#include "binade/core/dtype.h"

namespace binade {

void throw_not_floating(DType d, std::string_view op) {
  throw DTypeError(fmt::format("{}: wanted a floating dtype (f32, f16, bf16, f64), got {}", op, name_of(d)));
}

}  // namespace binade
