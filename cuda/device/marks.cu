#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/marks.cuh"

namespace binade::cuda {
namespace {

/// Marks share a ring of events. If the event of a mark has been reused for a later mark, the earlier one has been
/// reached.
constexpr std::uint64_t kEvents = 256;
cudaEvent_t g_events[kEvents] = {};
std::uint64_t g_last = 0;

/// Returns the event of a mark; null if the event has been reused for a later mark.
cudaEvent_t event_of(std::uint64_t mark) {
  const std::lock_guard lock(context().mutex);
  if (mark == 0 || mark > g_last) throw Failure(Status::kFailed, "no such mark was set");
  return g_last - mark < kEvents ? g_events[mark % kEvents] : nullptr;
}

}  // namespace

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

bool is_over(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // "not ready" is no error: resets the runtime's last error, so that the next launch does not
                         // report it
    return false;
  }
  check(status, "the device");
  return true;
}

std::uint64_t set_mark() {
  require_no_capture("a mark");
  const std::lock_guard lock(context().mutex);
  cudaEvent_t& event = g_events[(g_last + 1) % kEvents];
  if (event != nullptr)
    check(cudaEventSynchronize(event), "the device");
  else
    event = make_event();
  check(cudaEventRecord(event, context().stream), "cudaEventRecord");
  return ++g_last;
}

bool has_reached(std::uint64_t mark) {
  require_no_capture("querying a mark");
  const cudaEvent_t event = event_of(mark);
  return event == nullptr || is_over(event);
}

void wait_until_reached(std::uint64_t mark) {
  require_no_capture("waiting for the device");
  if (const cudaEvent_t event = event_of(mark); event != nullptr) check(cudaEventSynchronize(event), "the device");
}

void wait_for_mark(std::uint64_t mark) {
  wait_until_reached(mark);
  if (context().fault.first->call != 0) throw Failure(Status::kBadData, "an op met data that it has no result for");
}

}  // namespace binade::cuda
