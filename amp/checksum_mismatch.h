#pragma once

#include <cstdint>
#include <string>

#include "binade/autograd/observer.h"

namespace binade::amp {

/// The first op whose results differ in some bit between two computations of the same micro-batch.
struct ChecksumMismatch {
  std::string module{};          ///< path of the op's module
  std::string op{};              ///< name of the op
  const OpInfo* info = nullptr;  ///< description of the op
  Direction direction = Direction::kForward;
  std::int64_t micro_batch = 0;
  std::int64_t tape_index = 0;
  bool other_ops = false;  ///< true if the second computation did not run this op, because the closure ran other ops
};

}  // namespace binade::amp
