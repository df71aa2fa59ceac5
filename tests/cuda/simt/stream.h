#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace simt {

/// Submits work to a stream, or to the graph into which the stream is captured. Null is the kernels' stream.
/// BINADE_SIMT_STREAMS selects when the work runs, among the times at which a GPU may run it:
///   unset  the kernels' stream at once; other streams only when something waits for one of their events
///   late   the kernels' stream only when the host waits for it; other streams as soon as their events allow
///   N      (a number, the seed) all streams at random times
/// If the module leaves out a wait for an event, at least one of these gives wrong data.
void send(cudaStream_t stream, std::function<void()> work);
/// Runs all work of all streams, as an implicit synchronization of the CUDA runtime does.
void finish();

/// Returns the error that has made the device unusable, or cudaSuccess. A fault in device memory is such an error.
cudaError_t lost();
/// Stores `error` for cudaGetLastError() and returns it.
cudaError_t failed(cudaError_t error);
cudaError_t out_of_place(const char* what);
/// Counts a launch; a graph counts as one. With BINADE_SIMT_FAIL=N the N-th launch is a fault, with
/// BINADE_SIMT_FAIL=graph the first launch of a graph.
void count_launch();

/// Returns true if this thread captures the stream.
bool capturing();
/// Returns the error of a call that is not allowed during a capture of the stream, which fails the capture; otherwise
/// cudaSuccess.
cudaError_t forbidden_in_capture();
/// Like forbidden_in_capture(), for calls that a thread may allow itself (cudaThreadExchangeStreamCaptureMode).
cudaError_t unsafe_in_capture();

}  // namespace simt
