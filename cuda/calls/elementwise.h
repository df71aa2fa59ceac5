#pragma once

#include <cstdint>

#include "binade/core/dtype.h"

namespace binade::cuda {

/// Elements of one dtype in device memory.
struct Source {
  const void* data = nullptr;
  DType dtype = DType::f32;
};
struct Target {
  void* data = nullptr;
  DType dtype = DType::f32;
};

/// How up to four operands that broadcast to one shape are walked (core/ops/broadcast_plan.h): `runs` runs of `length`
/// elements. The last operand is the result.
struct Walk {
  static constexpr int kMaxOperands = 4, kMaxRank = 8;
  std::int64_t runs = 0, length = 0;
  int outer = 0;
  std::int64_t extents[kMaxRank] = {};
  std::int64_t strides[kMaxRank][kMaxOperands] = {};
  std::int64_t steps[kMaxOperands] = {};
};

/// Options of an elementwise op: its Params struct, bit by bit.
inline constexpr int kMaxParamBytes = 16;

struct UnaryCall {
  int op = 0;  ///< position in ops::UnaryOps
  bool backward = false;
  Walk walk;
  Source in[2];  ///< x; or what was saved, and gy
  Target out;
  alignas(8) unsigned char params[kMaxParamBytes] = {};
};

struct BinaryCall {
  int op = 0;         ///< position in ops::BinaryOps
  int direction = 0;  ///< 0: forward; 1, 2: the gradient of the first, of the second input
  Walk walk;
  Source in[3];  ///< a, b, gy
  Target out;
  alignas(8) unsigned char params[kMaxParamBytes] = {};
};

/// out = condition ? a : b
struct WhereCall {
  Walk walk;
  Source in[3];  ///< condition (one byte an element), a, b
  Target out;
};

}  // namespace binade::cuda
