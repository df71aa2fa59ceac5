#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device/failure.h"
#include "cuda/device/faults.cuh"

/// What every file of the module works with.
namespace binade::cuda {

/// Throws the Failure that fits unless `error` is cudaSuccess.
void check(cudaError_t error, const char* what);

/// The open device.
struct Context {
  int device = 0;
  int multiprocessors = 1;
  cudaStream_t stream = nullptr;
  std::uint32_t* seen = nullptr;  ///< the two words that kernels observe into, in device memory

  FaultNote fault;  ///< the first data that an op had no result for

  std::uint64_t waits = 0;  ///< how often the host has waited
};

Context& context();

/// Waits for everything that was sent to the device. Throws what it died of, and Status::kBadData.
void wait();

/// Device memory for the length of one call, taken and given back in stream order: what the kernels of the call have
/// still to do with it is done before anybody else gets it.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t count) { make(count); }
  /// Holds `count` values of the host's.
  Buffer(const T* values, std::int64_t count) {
    make(count);
    if (count > 0)
      check(cudaMemcpyAsync(data_, values, bytes_of(count), cudaMemcpyHostToDevice, context().stream), "upload");
  }
  ~Buffer() {
    if (data_ != nullptr) cudaFreeAsync(data_, context().stream);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  static std::size_t bytes_of(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(T); }
  void make(std::int64_t count) {
    if (count > 0) check(cudaMallocAsync(&data_, bytes_of(count), context().stream), "memory for an op to work in");
  }
  void* data_ = nullptr;
};

inline constexpr int kWarp = 32;

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The running block's dynamic shared memory, on 16 bytes.
__device__ inline void* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char bytes[];
  return bytes;
#else
  return simt::shared();
#endif
}

/// Starts `kernel` on the stream. `shared` bytes are dynamic shared memory. Throws where the launch is refused.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, const Arguments&... arguments) {
#if defined(__CUDACC__)
  if (shared > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
          "shared memory");
  kernel<<<grid, block, shared, context().stream>>>(arguments...);
#else
  simt::launch(grid, block, shared, [&] { kernel(arguments...); });
#endif
  check(cudaGetLastError(), "launch");
}

/// A grid for `count` pieces of work, each block taking those a grid apart: enough blocks to fill the device a few
/// times over, so that results do not depend on it (every piece is computed by itself).
inline unsigned grid_for(std::int64_t count) {
  const std::int64_t most = static_cast<std::int64_t>(context().multiprocessors) * 16;
  return static_cast<unsigned>(count < 1 ? 1 : count < most ? count : most);
}

}  // namespace binade::cuda
