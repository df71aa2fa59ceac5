#pragma once

#include "binade/core/random.h"
#include "binade/cuda/device/context.cuh"

namespace binade::cuda {

/// Returns the random stream of the step that runs now. A captured graph contains the stream of the step in which it
/// was captured, which was `*step_offset` steps ago (Context::step_offset).
__device__ __forceinline__ RandomStream live_stream(RandomStream stream, const std::int64_t* step_offset) {
  stream.step += static_cast<std::uint64_t>(*step_offset);
  return stream;
}

}  // namespace binade::cuda
