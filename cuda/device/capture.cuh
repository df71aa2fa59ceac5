#pragma once

#include <cuda_runtime.h>

namespace binade::cuda {

/// While an object of this class exists, this thread may allocate although it captures the stream; the allocation is
/// not part of the graph.
class AllowedInCapture {
 public:
  AllowedInCapture();
  ~AllowedInCapture();
  AllowedInCapture(const AllowedInCapture&) = delete;
  AllowedInCapture& operator=(const AllowedInCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct Graph;

/// Starts recording the work that this thread submits. Other threads that submit work wait for the end.
void begin_capture();
/// Ends capture and returns the graph, or null if it is not wanted. Throws an error that occurred during the capture.
Graph* end_capture(bool wanted);
void run_graph(Graph& graph);
void destroy(Graph* graph) noexcept;

/// cudaFree, deferred until capture ends.
cudaError_t free_when_allowed(void* memory);

}  // namespace binade::cuda
