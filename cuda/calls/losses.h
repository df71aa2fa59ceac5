#pragma once

#include "binade/cuda/calls/elementwise.h"

namespace binade::cuda {

/// CrossEntropy::Kernels (core/ops/cross_entropy.h). `out`: the loss; in backward gx.
struct CrossEntropyCall {
  bool backward = false;
  std::int64_t rows = 0, classes = 0, pitch = 0;  ///< pitch: of the logits
  Source logits{}, targets{};
  Target statistics{};
  std::int64_t* count = nullptr;
  Source gy{};
  Target out{};
  std::int64_t ignore_index = 0;
  double label_smoothing = 0;
  std::uint64_t number = 0;  ///< under which a target that is no class is noted (cuda/faults.h)
};

/// ElementLossKernels (core/ops/element_losses.h): `count` contiguous elements.
struct ElementLossCall {
  int op = 0;         ///< position in ops::ElementLosses
  int direction = 0;  ///< 0: forward; 1, 2: the gradient of x, of t
  std::int64_t count = 0;
  Source x, t, gy;
  double divisor = 1;
  Target out;
  alignas(8) unsigned char params[kMaxParamBytes] = {};
};

/// Dice::Kernels (core/ops/dice.h): `count` contiguous elements; sums (3) of f32 or f64.
struct DiceSumsCall {
  std::int64_t count = 0;
  Source x, t;
  Target sums;
};
struct DiceLossCall {
  Source sums;
  double smooth = 0;
  Target loss;
};
struct DiceGradientCall {
  std::int64_t count = 0;
  Source other, sums, gy;
  double smooth = 0;
  Target g;
};

}  // namespace binade::cuda
