#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace simt {

/// Work for the device's one stream: runs at once, or is noted down while the stream is captured.
void send(std::function<void()> work);

/// The error that stays once it has been met, or cudaSuccess: a fault in its memory is one that the device does not
/// survive.
cudaError_t lost();
/// Leaves `error` for cudaGetLastError.
cudaError_t failed(cudaError_t error);
cudaError_t out_of_place(const char* what);
/// BINADE_SIMT_FAIL=N: the N-th launch is a fault. A graph is one launch; BINADE_SIMT_FAIL=graph: the first of one is.
void count_launch();

/// Whether this thread captures the stream.
bool capturing();
/// The error of a call that a stream which is captured forbids, or cudaSuccess; the capture has failed then.
cudaError_t forbidden_in_capture();
/// The same where it forbids it unless the thread has said that it means it.
cudaError_t unsafe_in_capture();

}  // namespace simt
