#pragma once

#include "binade/core/kernels/conv.h"

namespace binade::cuda {

/// Who computes a convolution. Binade's own kernels are what the library's results are held against.
enum class ConvBy : int {
  kAny,  ///< the library where it has a deterministic plan, else Binade
  kOwn,
  kLibrary,  ///< throws where it has no plan
};

struct ConvCall {
  cpu::ConvArgs args;
  bool transposed = false;  ///< the data gradient
  ConvBy by = ConvBy::kAny;
};
struct ConvWeightCall {
  cpu::ConvWeightArgs args;
  ConvBy by = ConvBy::kAny;
};

}  // namespace binade::cuda
