#include "tests/cuda/simt/stream.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace simt {
namespace {

using Work = std::function<void()>;

/// The position that an event marked when it was recorded. Waits refer to this position, even if the event is recorded
/// again later.
struct Point {
  simt_stream* stream = nullptr;
  bool reached = false;
};

/// Submitted work, or a wait for another stream.
struct Submitted {
  Work work;
  std::shared_ptr<Point> behind;
};

}  // namespace
}  // namespace simt

struct simt_stream {
  std::deque<simt::Submitted> sent;
};
struct simt_event {
  std::shared_ptr<simt::Point> last;
};
/// The work that was submitted to a stream while it was captured.
struct simt_graph {
  std::vector<simt::Work> work;
};

namespace simt {
namespace {

struct Capture {
  simt_graph graph;
  std::thread::id thread;
  bool failed = false;
};
Capture* g_capture = nullptr;
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;

// ---- execution of submitted work

/// Protects all data below. Never destroyed, like the streams, because threads may outlive main().
std::recursive_mutex& mutex() {
  static auto* only = new std::recursive_mutex;
  return *only;
}
/// All streams; the first one is the kernels' stream.
std::vector<simt_stream*>& streams() {
  static auto* all = new std::vector<simt_stream*>{new simt_stream};
  return *all;
}
simt_stream& stream_of(cudaStream_t handle) { return handle != nullptr ? *handle : *streams()[0]; }

enum class Pace { kAtOnce, kLate, kRandom };
std::minstd_rand& dice() {
  static auto* only = new std::minstd_rand;
  return *only;
}
Pace pace() {
  static const Pace is = [] {
    const char* text = std::getenv("BINADE_SIMT_STREAMS");
    if (text == nullptr) return Pace::kAtOnce;
    if (std::string_view(text) == "late") return Pace::kLate;
    dice().seed(static_cast<unsigned>(std::strtoul(text, nullptr, 10)) + 1);
    return Pace::kRandom;
  }();
  return is;
}

/// Runs the next submitted work. Returns false if there is none, or if it waits for an event.
bool go_on(simt_stream& stream) {
  if (stream.sent.empty()) return false;
  const std::shared_ptr<Point> behind = stream.sent.front().behind;
  if (behind != nullptr && !behind->reached) return false;
  const Work work = std::move(stream.sent.front().work);
  stream.sent.pop_front();
  if (work) work();
  return true;
}

/// Runs the next submitted work. If it waits for other work, runs that first.
void force(simt_stream& stream) {
  if (stream.sent.empty()) {
    std::fprintf(stderr, "emulated device: an event was waited for that never comes\n");
    std::abort();
  }
  const std::shared_ptr<Point> behind = stream.sent.front().behind;
  while (behind != nullptr && !behind->reached) force(*behind->stream);
  go_on(stream);
}

void go_on_at_random() {
  static std::size_t favored = 0;
  static bool in_bursts = false;
  if (dice()() % 16 == 0) favored = dice()();
  if (dice()() % 16 == 0) in_bursts = !in_bursts;
  std::vector<simt_stream*>& all = streams();
  for (std::size_t n = dice()() % (in_bursts ? 8 : 2); n > 0; --n)
    go_on(*all[(dice()() % 8 == 0 ? dice()() : favored) % all.size()]);
}

/// Runs the work that a device might run during a call of the host.
void go_on() {
  switch (pace()) {
    case Pace::kAtOnce:
      while (!streams()[0]->sent.empty()) force(*streams()[0]);
      break;
    case Pace::kLate:
      for (std::size_t i = 1; i < streams().size(); ++i)
        while (go_on(*streams()[i])) {
        }
      break;
    case Pace::kRandom: go_on_at_random(); break;
  }
}

void push(simt_stream& stream, Submitted sent) {
  stream.sent.push_back(std::move(sent));
  go_on();
}

}  // namespace

void send(cudaStream_t stream, Work work) {
  const std::lock_guard lock(mutex());
  simt_stream& to = stream_of(stream);
  if (g_capture != nullptr && &to == streams()[0])
    g_capture->graph.work.push_back(std::move(work));
  else
    push(to, {std::move(work), nullptr});
}

void finish() {
  const std::lock_guard lock(mutex());
  for (simt_stream* stream : streams())
    while (!stream->sent.empty()) force(*stream);
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(simt::mutex());
  static bool first = true;
  if (!std::exchange(first, false)) simt::streams().push_back(new simt_stream);
  *stream = simt::streams().back();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  simt::finish();
  const std::lock_guard lock(simt::mutex());
  std::erase(simt::streams(), stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  const std::lock_guard lock(simt::mutex());
  if (simt::lost() != cudaSuccess) return simt::lost();
  while (!simt::stream_of(stream).sent.empty()) simt::force(simt::stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  const std::lock_guard lock(simt::mutex());
  simt_stream& waiting = simt::stream_of(stream);
  if (&waiting == simt::streams()[0])  // stricter than a GPU, where it becomes a part of the graph
    if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  if (event->last != nullptr) simt::push(waiting, {nullptr, event->last});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new simt_event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  const std::lock_guard lock(simt::mutex());
  simt_stream& on = simt::stream_of(stream);
  if (&on == simt::streams()[0])  // stricter than a GPU, where it becomes a part of the graph
    if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  const auto point = std::make_shared<simt::Point>(simt::Point{.stream = &on});
  event->last = point;
  simt::push(on, {[point] { point->reached = true; }, nullptr});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  if (const cudaError_t error = simt::unsafe_in_capture(); error != cudaSuccess) return error;
  const std::lock_guard lock(simt::mutex());
  if (event->last == nullptr || event->last->reached) return cudaSuccess;
  simt::force(*event->last->stream);  // so that repeated queries succeed in the end
  return simt::failed(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  const std::lock_guard lock(simt::mutex());
  const std::shared_ptr<simt::Point> point = event->last;
  while (point != nullptr && !point->reached) simt::force(*point->stream);
  return simt::lost();
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(simt::t_mode, *mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (simt::lost() != cudaSuccess) return simt::lost();
  const std::lock_guard lock(simt::mutex());
  if (g_capture != nullptr) return simt::failed(cudaErrorStreamCaptureUnsupported);
  g_capture = new simt::Capture{.graph = {}, .thread = std::this_thread::get_id()};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!simt::capturing()) return simt::failed(cudaErrorInvalidValue);
  const std::lock_guard lock(simt::mutex());
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
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  simt::count_launch();
  if (const char* failing = std::getenv("BINADE_SIMT_FAIL"); failing != nullptr && std::string_view(failing) == "graph")
    simt::out_of_place("an illegal memory access was encountered");
  if (simt::lost() != cudaSuccess) return simt::lost();
  if (const cudaError_t error = simt::forbidden_in_capture(); error != cudaSuccess) return error;
  for (const simt::Work& work : graph->work) simt::send(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }
