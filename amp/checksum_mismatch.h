#pragma once

#include <cstdint>
#include <string>

#include "binade/autograd/observer.h"

namespace binade::amp {

/// The first op of which two computations of the same micro-batch had different bits.
struct ChecksumMismatch {
  std::string module{};          ///< path of the op's module
  std::string op{};              ///< name of the op
  const OpInfo* info = nullptr;  ///< description of the op
  Direction direction = Direction::kForward;
  std::int64_t micro_batch = 0;
  std::int64_t tape_index = 0;
  bool other_ops = false;  ///< true if the computations differ in the op itself, because the closure ran other ops
};

}  // namespace binade::amp
