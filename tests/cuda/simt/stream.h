#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace simt {

/// Work for a stream, or for the graph that the stream is captured into. Null is the stream that kernels run on. When
/// the work runs is BINADE_SIMT_STREAMS' choice, of everything that a GPU may do:
///   unset  that stream at once; others when an event of theirs is waited for, and not before
///   late   that stream when the host waits for it, and not before; others as soon as their events let them
///   N      a number: each goes on at random, now the one and now the other
/// A wait for an event that is left out shows as wrong data under one of them.
void send(cudaStream_t stream, std::function<void()> work);
/// Runs all that was sent to any stream: what an implicit wait of the runtime's does.
void finish();

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
