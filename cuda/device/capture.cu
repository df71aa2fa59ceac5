#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/cuda/device/capture.cuh"
#include "binade/cuda/device/context.cuh"

namespace binade::cuda {
namespace {

/// A block of device memory, and the constants that are copied to it when capture ends.
struct Constants {
  char* on_device = nullptr;
  std::size_t used = 0;
  std::vector<char> on_host;
};

/// The data that a thread collects during a capture. `failure`: the first error; empty if there is none.
struct Capture {
  std::vector<Constants> constants;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<void*> freed;                          // memory that was freed while capturing; it is released at the end
  std::vector<std::shared_ptr<const void>> dropped;  // objects of graphs that were destroyed while capturing
  std::string failure;
};

/// The capture that this thread is making; null if there is none.
thread_local Capture* t_capture = nullptr;

constexpr std::size_t kAlignment = 256, kBlock = std::size_t{1} << 20;

}  // namespace

/// A captured graph, the memory of its constants, and the objects that it needs.
struct Graph {
  cudaGraphExec_t work = nullptr;
  std::vector<void*> memory;
  std::vector<std::shared_ptr<const void>> kept;
};

AllocationInCapture::AllocationInCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
AllocationInCapture::~AllocationInCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

bool capturing() { return t_capture != nullptr; }

void require_no_capture(const char* what) {
  if (t_capture == nullptr) return;
  if (t_capture->failure.empty()) t_capture->failure = std::string(what) + " cannot be recorded";
  throw Failure(Status::kFailed, t_capture->failure);
}

const void* hold_for_graph(const void* values, std::size_t bytes) {
  std::vector<Constants>& all = t_capture->constants;
  if (all.empty() || all.back().on_host.size() - all.back().used < bytes) {
    const std::size_t capacity = std::max(bytes, kBlock);
    const AllocationInCapture allowed;
    Constants block{.on_device = nullptr, .used = 0, .on_host = std::vector<char>(capacity)};
    void* on_device = nullptr;
    check(cudaMalloc(&on_device, capacity), "memory for a graph's constants");
    block.on_device = static_cast<char*>(on_device);
    all.push_back(std::move(block));
  }
  Constants& to = all.back();
  std::memcpy(to.on_host.data() + to.used, values, bytes);
  const void* on_device = to.on_device + to.used;
  to.used = std::min(to.on_host.size(), (to.used + bytes + kAlignment - 1) / kAlignment * kAlignment);
  return on_device;
}

void keep_for_graph(std::shared_ptr<const void> object) { t_capture->kept.push_back(std::move(object)); }

void begin_capture() {
  Context& device = context();
  require_no_capture("another recording");
  device.mutex.lock();
  auto capture = std::make_unique<Capture>();
  const cudaError_t error = cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) {
    device.mutex.unlock();
    check(error, "cudaStreamBeginCapture");
  }
  t_capture = capture.release();
}

Graph* end_capture(bool wanted) {
  Context& device = context();
  if (t_capture == nullptr) throw Failure(Status::kFailed, "no capture is in progress");
  const std::unique_ptr<Capture> capture(t_capture);
  const std::unique_lock lock(device.mutex, std::adopt_lock);
  cudaGraph_t captured = nullptr;
  cudaError_t error = cudaStreamEndCapture(device.stream, &captured);
  t_capture = nullptr;
  std::unique_ptr<Graph, void (*)(Graph*)> graph(new Graph, [](Graph* g) { destroy(g); });
  for (const Constants& constants : capture->constants) graph->memory.push_back(constants.on_device);
  graph->kept = std::move(capture->kept);
  for (void* memory : capture->freed) cudaFree(memory);
  const bool failed = error != cudaSuccess || !capture->failure.empty();
  if (!failed && wanted) error = cudaGraphInstantiate(&graph->work, captured, 0);
  if (captured != nullptr) cudaGraphDestroy(captured);
  if (failed)
    cudaGetLastError();  // resets the runtime's last error, which is reported here, so that the next launch does not
                         // report it
  if (!wanted) return nullptr;
  if (!capture->failure.empty()) throw Failure(Status::kFailed, capture->failure);
  check(error, "recording");
  for (const Constants& constants : capture->constants)
    upload(constants.on_device, constants.on_host.data(), constants.used);
  check(cudaGraphUpload(graph->work, device.stream), "recording");
  return graph.release();
}

void run_graph(Graph& graph) {
  require_no_capture("a recording inside another");
  check(cudaGraphLaunch(graph.work, context().stream), "running a captured graph");
}

void destroy(Graph* graph) noexcept {
  if (graph == nullptr) return;
  if (graph->work != nullptr) cudaGraphExecDestroy(graph->work);
  for (void* memory : graph->memory) free_when_allowed(memory);
  if (t_capture != nullptr)
    for (auto& object : graph->kept) t_capture->dropped.push_back(std::move(object));
  delete graph;
}

cudaError_t free_when_allowed(void* memory) {
  if (t_capture == nullptr) return cudaFree(memory);
  t_capture->freed.push_back(memory);
  return cudaSuccess;
}

}  // namespace binade::cuda
