#pragma once

#include <cuda_runtime.h>

#include "binade/cuda/api.h"

namespace binade::cuda {

/// Where kernels record data for which an op has no result (core/faults.h).
struct FaultNote {
  Fault* first = nullptr;    ///< page-locked host memory, which the host reads after it has waited for the device
  unsigned* lock = nullptr;  ///< a lock in device memory, which a kernel takes before it writes `first`
};

/// Records that call `call` has no result for `value` at `position`. Of several records, keeps
/// that of the first call and, within a call, of the first position, in whatever order threads run.
__device__ inline void note_fault(const FaultNote& note, std::uint64_t call, std::int64_t position,
                                  std::int64_t value) {
  volatile Fault* first = note.first;
  const auto is_first = [&] {
    const std::uint64_t noted = first->call;
    __threadfence_system();
    return noted == 0 || (noted == call && position < first->position);
  };
  bool done = !is_first();
  while (!done) {
    if (atomicCAS(note.lock, 0u, 1u) != 0u) continue;
    if (is_first()) {
      first->position = position;
      first->value = value;
      __threadfence_system();  // a reader that sees the call sees the rest
      first->call = call;
      __threadfence_system();
    }
    atomicExch(note.lock, 0u);
    done = true;
  }
}

}  // namespace binade::cuda
