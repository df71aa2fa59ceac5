#pragma once

#include <cuda_runtime.h>

#include <memory>

namespace binade::cuda {

/// While an object of this class exists, this thread may allocate device memory although it captures the stream. The
/// allocation is not part of the graph.
class AllocationInCapture {
 public:
  AllocationInCapture();
  ~AllocationInCapture();
  AllocationInCapture(const AllocationInCapture&) = delete;
  AllocationInCapture& operator=(const AllocationInCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct Graph;

/// Starts recording the work that this thread submits. Other threads that submit work wait until the capture ends.
void begin_capture();
/// Ends the capture. Returns the graph or, if not `wanted`, discards it and returns null. Throws an error that occurred
/// during the capture.
Graph* end_capture(bool wanted);
/// Launches a captured graph on the context's stream.
void run_graph(Graph& graph);
void destroy(Graph* graph) noexcept;

/// Keeps an object, such as a library's plan whose tables the recorded work reads, until the graph is destroyed or the
/// capture fails. REQUIRES capturing(). The last reference is never dropped while this thread captures.
void keep_for_graph(std::shared_ptr<const void> object);

/// Frees device memory at once or, during a capture, when the capture ends. Returns the error of cudaFree.
cudaError_t free_when_allowed(void* memory);

}  // namespace binade::cuda
