#pragma once

#include <cuda_runtime.h>

namespace binade::cuda {

/// While it lives, this thread may take memory although it captures the stream: that becomes no part of the graph.
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

/// From here on what this thread sends is noted down. Other threads that send wait for the end.
void begin_capture();
/// The end: a graph, or null where none is wanted. Throws what went wrong meanwhile.
Graph* end_capture(bool wanted);
void run_graph(Graph& graph);
void destroy(Graph* graph) noexcept;

/// cudaFree: at once, or when the capture has ended.
cudaError_t free_when_allowed(void* memory);

}  // namespace binade::cuda
