#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/cuda/simt/stream.h"

using simt::failed, simt::lost, simt::out_of_place;

namespace {

cudaError_t g_last = cudaSuccess;
const char* g_detail = nullptr;

/// The page-locked blocks: address and size in bytes.
std::map<const char*, std::size_t>& pinned() {
  static auto* blocks = new std::map<const char*, std::size_t>;
  return *blocks;
}
std::mutex& pinned_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
bool is_pinned(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(pinned_mutex());
  const auto* at = static_cast<const char*>(memory);
  const auto behind = pinned().upper_bound(at);
  if (behind == pinned().begin()) return false;
  const auto& [begin, size] = *std::prev(behind);
  return at + bytes <= begin + size;
}

}  // namespace

namespace simt {

cudaError_t failed(cudaError_t error) { return g_last = error; }
cudaError_t out_of_place(const char* what) {
  g_detail = what;
  return failed(cudaErrorIllegalAddress);
}
cudaError_t lost() { return g_last == cudaErrorIllegalAddress ? g_last : cudaSuccess; }
void count_launch() {
  static const long failing = [] {
    const char* text = std::getenv("BINADE_SIMT_FAIL");
    return text != nullptr ? std::strtol(text, nullptr, 10) : 0L;
  }();
  static long launches = 0;
  if (++launches == failing) out_of_place("an illegal memory access was encountered");
}

}  // namespace simt

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : failed(cudaErrorInvalidValue); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device");
  properties->major = 9;
  properties->multiProcessorCount = 1;
  properties->totalGlobalMem = simt::bytes_free();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (lost() != cudaSuccess) return lost();
  if (const cudaError_t error = simt::unsafe_in_capture(); error != cudaSuccess) return error;
  *memory = simt::allocate(bytes);
  return *memory != nullptr ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  if (lost() != cudaSuccess) return lost();
  if (const cudaError_t error = simt::unsafe_in_capture(); error != cudaSuccess) return error;
  simt::finish();  // as the CUDA runtime does
  return simt::release(memory) ? cudaSuccess : out_of_place("freed memory that the device does not have");
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (const cudaError_t error = simt::unsafe_in_capture(); error != cudaSuccess) return error;
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return failed(cudaErrorMemoryAllocation);
  const std::lock_guard lock(pinned_mutex());
  pinned()[static_cast<const char*>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  if (const cudaError_t error = simt::unsafe_in_capture(); error != cudaSuccess) return error;
  if (lost() == cudaSuccess) simt::finish();
  const std::lock_guard lock(pinned_mutex());
  if (pinned().erase(static_cast<const char*>(memory)) == 0) return failed(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = simt::bytes_free();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (lost() != cudaSuccess) return lost();
  const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  if (simt::owns(to) != to_device || simt::owns(from) != from_device)
    return out_of_place("copied between memories other than those it named");
  const bool ordinary = (!to_device && !is_pinned(to, bytes)) || (!from_device && !is_pinned(from, bytes));
  if (ordinary)
    if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  simt::send(stream, [=] {
    const simt::Access access;
    std::memcpy(to, from, bytes);
  });
  return ordinary ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < height; ++i) {
    const cudaError_t error = cudaMemcpyAsync(static_cast<char*>(to) + i * to_pitch,
                                              static_cast<const char*>(from) + i * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (lost() != cudaSuccess) return lost();
  if (!simt::owns(memory)) return out_of_place("cleared memory that the device does not have");
  simt::send(stream, [=] {
    const simt::Access access;
    std::memset(memory, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  simt::count_launch();  // the module calls this function after each launch
  const cudaError_t last = g_last;
  if (lost() == cudaSuccess) g_last = cudaSuccess;
  return last;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorIllegalAddress: return g_detail != nullptr ? g_detail : "an illegal memory access was encountered";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    default: return "an error of the emulated device";
  }
}
