#pragma once

// The part of the CUDA runtime that the module uses, for the emulated device (simt.h). Replaces the toolkit's header of
// this name when the module is compiled for the host.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/cuda/simt/simt.h"

#define __global__ static
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

using dim3 = simt::Dim3;

// ---- functions of kernels

inline const simt::Dim3& threadIdx = simt::place.thread;
inline const simt::Dim3& blockIdx = simt::place.block;
inline const simt::Dim3& blockDim = simt::place.block_extent;
inline const simt::Dim3& gridDim = simt::place.grid_extent;

inline void __syncthreads() { simt::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { simt::ballot(mask, true); }
inline unsigned __ballot_sync(unsigned mask, int predicate) { return simt::ballot(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return simt::ballot(mask, predicate != 0) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return simt::ballot(mask, predicate == 0) == 0; }
inline int __syncthreads_or(int predicate) {
  static int any;
  simt::block_barrier();
  any = 0;
  simt::block_barrier();
  if (predicate) any = 1;
  simt::block_barrier();
  return any;
}
inline void __threadfence_system() {}
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace simt {
template <class T>
T shuffled(unsigned mask, T x, unsigned from) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  bits = exchange(mask, bits, from);
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
/// Returns lane `to` if it is in this lane's group of `width` lanes, otherwise this lane.
inline unsigned within(unsigned to, unsigned width) {
  const unsigned first = lane() / width * width;
  return to >= first && to < first + width ? to : lane();
}
}  // namespace simt

template <class T>
T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
  const auto w = static_cast<unsigned>(width);
  return simt::shuffled(mask, x, simt::lane() / w * w + static_cast<unsigned>(from) % w);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32) {
  return simt::shuffled(mask, x,
                        simt::within(simt::lane() ^ static_cast<unsigned>(with), static_cast<unsigned>(width)));
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
  return simt::shuffled(mask, x, simt::within(simt::lane() + by, static_cast<unsigned>(width)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
  return simt::shuffled(mask, x, simt::within(simt::lane() - by, static_cast<unsigned>(width)));
}

template <class T>
T atomicAdd(T* at, T by) {
  const T before = *at;
  *at = before + by;
  return before;
}
template <class T>
T atomicMax(T* at, T with) {
  const T before = *at;
  *at = std::max(before, with);
  return before;
}
template <class T>
T atomicMin(T* at, T with) {
  const T before = *at;
  *at = std::min(before, with);
  return before;
}
template <class T>
T atomicOr(T* at, T with) {
  const T before = *at;
  *at = before | with;
  return before;
}
template <class T>
T atomicExch(T* at, T with) {
  const T before = *at;
  *at = with;
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T with) {
  const T before = *at;
  if (before == expected) *at = with;
  return before;
}
inline float __fdividef(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
template <class T>
T __ldg(const T* at) {
  return *at;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

// ---- functions of the host

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorECCUncorrectable = 214,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotReady = 600,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1 };
enum { cudaHostAllocDefault = 0, cudaHostAllocMapped = 2 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaEventDisableTiming = 2 };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};

using cudaStream_t = struct simt_stream*;
using cudaEvent_t = struct simt_event*;
using cudaGraph_t = struct simt_graph*;
using cudaGraphExec_t = struct simt_graph*;

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  std::size_t totalGlobalMem;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* graph, cudaGraph_t from, unsigned long long flags = 0);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
/// Returns and clears the last error; cudaPeekAtLastError() does not clear it.
cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
