#include "tests/cuda/simt/stream.h"

#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

/// What a stream was sent while it was captured.
struct simt_graph {
  std::vector<std::function<void()>> work;
};
/// All that is sent has run when the call returns: every event has been reached.
struct simt_event {};

namespace simt {
namespace {

struct Capture {
  simt_graph graph;
  std::thread::id thread;
  bool failed = false;
};
Capture* g_capture = nullptr;
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;

}  // namespace

void send(std::function<void()> work) {
  if (g_capture != nullptr)
    g_capture->graph.work.push_back(std::move(work));
  else
    work();
}

bool capturing() { return g_capture != nullptr && g_capture->thread == std::this_thread::get_id(); }
cudaError_t forbidden_in_capture() {
  if (!capturing()) return cudaSuccess;
  g_capture->failed = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}
cudaError_t unsafe_in_capture() {
  return t_mode == cudaStreamCaptureModeRelaxed ? cudaSuccess : forbidden_in_capture();
}

}  // namespace simt

using simt::g_capture;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new simt_event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  return simt::forbidden_in_capture();  // stricter than a GPU, where it becomes a part of the graph
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  return simt::unsafe_in_capture();
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  return simt::forbidden_in_capture();
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(simt::t_mode, *mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  if (g_capture != nullptr) return simt::failed(cudaErrorStreamCaptureUnsupported);
  g_capture = new simt::Capture{.graph = {}, .thread = std::this_thread::get_id()};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!simt::capturing()) return simt::failed(cudaErrorInvalidValue);
  simt::Capture* ended = std::exchange(g_capture, nullptr);
  const bool failed = ended->failed;
  if (!failed) *graph = new simt_graph(std::move(ended->graph));
  delete ended;
  if (simt::lost() != cudaSuccess) return simt::lost();
  return failed ? simt::failed(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* graph, cudaGraph_t from, unsigned long long) {
  *graph = new simt_graph(*from);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  simt::count_launch();
  if (const char* failing = std::getenv("BINADE_SIMT_FAIL"); failing != nullptr && std::string_view(failing) == "graph")
    simt::out_of_place("an illegal memory access was encountered");
  if (simt::lost() != cudaSuccess) return simt::lost();
  if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  for (const auto& work : graph->work) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }
