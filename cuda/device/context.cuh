#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "binade/cuda/device/failure.h"
#include "binade/cuda/device/faults.cuh"

/// The state of the open device and the helpers that every file of the module uses.
namespace binade::cuda {

/// Throws the matching Failure unless `error` is cudaSuccess.
void check(cudaError_t error, const char* what);

/// The open device.
struct Context {
  int device = 0;
  int multiprocessors = 1;
  int capability = 0;  ///< 10 major + minor
  cudaStream_t stream = nullptr;
  std::uint32_t* amax_words = nullptr;  ///< two device words to which the kernels of this call write observed maxima
  bool observes_libraries = true;       ///< true: results of libraries are read again, to observe them

  FaultNote fault;  ///< where kernels record the first data for which an op had no result

  /// A number in device memory: the number of the running step minus the step number that the kernels got as an
  /// argument. It is 0 in eager steps, and positive when a captured graph runs in a later step
  /// (cuda/device/live_stream.cuh).
  std::int64_t* step_offset = nullptr;

  std::atomic<std::uint64_t> waits{0};  ///< number of times the host has waited
  /// Guards submission to the stream: one call at a time, and no work of another thread during a capture.
  std::recursive_mutex mutex;
};

/// Returns the open device.
Context& context();

/// Waits for all submitted work. Throws the error that stopped the device, or Status::kBadData.
void wait();

/// Copies from ordinary host memory to the device, without waiting for the device. `from` may be overwritten on return.
void upload(void* to, const void* from, std::size_t bytes);

/// Copies the content that `from` has when `mark` is reached to ordinary host memory, concurrently with later work
/// (fetch.cu).
void fetch(void* to, const void* from, std::size_t bytes, std::uint64_t mark);

/// Allocate and free workspace for the kernels of one call (work_memory.cu).
void* allocate_work(std::size_t bytes);
void release_work(void* memory) noexcept;

/// Returns true if this thread captures the stream, so that the work that it submits is recorded in a graph instead of
/// run (capture.cu).
bool capturing();
/// Throws a Failure that names `what` if this thread captures the stream; the capture then fails too.
void require_no_capture(const char* what);
/// Returns device memory that holds a copy of `values` whenever the graph that is being captured runs. It lives as long
/// as the graph. REQUIRES capturing().
const void* hold_for_graph(const void* values, std::size_t bytes);

/// Device memory for one call. Later calls may get the same bytes: all kernels are on one stream, so the kernels of
/// later calls run after those of this call.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t count) {
    if (count > 0) data_ = work_ = allocate_work(bytes_of(count));
  }
  /// Holds a copy of `count` host values, which kernels do not change.
  Buffer(const T* values, std::int64_t count) {
    if (count <= 0) return;
    if (capturing()) {
      data_ = const_cast<void*>(hold_for_graph(values, bytes_of(count)));
    } else {
      data_ = work_ = allocate_work(bytes_of(count));
      upload(data_, values, bytes_of(count));
    }
  }
  ~Buffer() {
    if (work_ != nullptr) release_work(work_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  static std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(T); }
  void* data_ = nullptr;
  void* work_ = nullptr;  // memory to release; null if it belongs to a graph
};

inline constexpr int kWarp = 32;  ///< threads of a warp

/// Returns a / b, rounded up, for a >= 0 and b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Returns the block's dynamic shared memory, aligned to 16 bytes.
__device__ inline void* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char bytes[];
  return bytes;
#else
  return simt::shared();
#endif
}

/// Starts `kernel` on the stream with `shared` bytes of dynamic shared memory. Throws if the launch is refused.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, const Arguments&... arguments) {
#if defined(__CUDACC__)
  if (shared > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
          "shared memory");
  kernel<<<grid, block, shared, context().stream>>>(arguments...);
#else
  simt::launch(grid, block, shared, [=] { kernel(arguments...); });
#endif
  check(cudaGetLastError(), "launch");
}

/// Returns a grid of one block per work item. If there are more items than a grid may have blocks, each block has to
/// process several items.
inline unsigned blocks_for(std::int64_t work) {
  constexpr std::int64_t kMostBlocks = 0x7fffffff;
  return static_cast<unsigned>(work < kMostBlocks ? work : kMostBlocks);
}

/// Calls f(i) for this thread's indices in [0, count). The distance between consecutive indices is the number of
/// threads in the grid.
template <class Index, class F>
__device__ __forceinline__ void each_index(Index count, F&& f) {
  for (Index i = blockIdx.x * static_cast<Index>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<Index>(gridDim.x) * blockDim.x)
    f(i);
}

/// Returns a grid for `count` work items, of at most `each_multiprocessor` blocks per multiprocessor. If there are more
/// items than blocks, each block has to process several items. Results do not depend on the grid, since every item is
/// computed separately. If blocks are small, a larger grid leaves less of the device idle at the end.
inline unsigned grid_for(std::int64_t count, int each_multiprocessor = 16) {
  const std::int64_t most = static_cast<std::int64_t>(context().multiprocessors) * each_multiprocessor;
  return static_cast<unsigned>(count < 1 ? 1 : count < most ? count : most);
}

}  // namespace binade::cuda
