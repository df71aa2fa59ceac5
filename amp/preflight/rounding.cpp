#include "binade/amp/preflight/rounding.h"

namespace binade::amp {

double rounded(double x, DType dtype) {
  switch (dtype) {
    case DType::f16: return float16::from_float(static_cast<float>(x)).to_float();
    case DType::bf16: return bfloat16::from_float(static_cast<float>(x)).to_float();
    case DType::f32: return static_cast<float>(x);
    default: return x;
  }
}

ValueRange rounded(const ValueRange& range, DType dtype) {
  return {rounded(range.low, dtype), rounded(range.high, dtype), range.peaks};
}

}  // namespace binade::amp
