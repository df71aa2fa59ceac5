#include <cstdio>
#include <cstring>
#include <new>

#include "binade/cuda/api.h"
#include "binade/cuda/device/capture.cuh"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/marks.cuh"
#include "cuda/abi.h"

namespace binade::cuda {
namespace {

thread_local char t_text[512] = "";
Context* g_context = nullptr;

Status fail(Status status, const char* text) {
  std::snprintf(t_text, sizeof t_text, "%s", text);
  return status;
}

/// Runs `body` and converts what it throws to a status and its text.
template <class F>
Status guarded(F&& body) {
  try {
    body();
    return Status::kOk;
  } catch (const Failure& failure) {
    return fail(failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return fail(Status::kNoMemory, "the host has no memory for it");
  } catch (const std::exception& error) {
    return fail(Status::kFailed, error.what());
  }
}

/// The same for code that submits to the stream.
template <class F>
Status sending(F&& body) {
  return guarded([&] {
    const std::lock_guard lock(context().mutex);
    body();
  });
}

Status status_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return Status::kOk;
    case cudaErrorMemoryAllocation: return Status::kNoMemory;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return Status::kUnsupported;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorDevicesUnavailable: return Status::kLost;
    default: return Status::kFailed;
  }
}

/// A kernel of the table. `defined` is false if no file of the module defines it.
struct Entry {
  bool there;
  void (*run)(const void* args);
};

const Entry kKernels[] = {
#define BINADE_ENTRY(name, Args) \
  {run_##name != nullptr, [](const void* args) { run_##name(*static_cast<const Args*>(args)); }},
    BINADE_KERNELS(BINADE_ENTRY) BINADE_DEVICE_KERNELS(BINADE_ENTRY)
#undef BINADE_ENTRY
};

const char* last_error() { return t_text; }

Status count(int* count) {
  *count = 0;
  const cudaError_t error = cudaGetDeviceCount(count);
  if (error == cudaSuccess || error == cudaErrorNoDevice) return Status::kOk;
  return guarded([&] { check(error, "the driver"); });
}

Status open(int index, DeviceFacts* facts) {
  return guarded([&] {
    if (g_context != nullptr) throw Failure(Status::kFailed, "a device is open already");
    check(cudaSetDevice(index), "cudaSetDevice");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    if (properties.major < 8)
      throw Failure(Status::kUnsupported, std::string(properties.name) + " has compute capability " +
                                              std::to_string(properties.major) + "." +
                                              std::to_string(properties.minor) + "; Binade needs 8.0 or newer");
    Context* opened = new Context;  // never destroyed: the driver may be gone before statics are
    opened->device = index;
    opened->multiprocessors = properties.multiProcessorCount;
    opened->capability = 10 * properties.major + properties.minor;
    check(cudaStreamCreateWithFlags(&opened->stream, cudaStreamNonBlocking), "cudaStreamCreate");
    void *first = nullptr, *lock = nullptr;
    check(cudaHostAlloc(&first, sizeof(Fault), cudaHostAllocMapped), "cudaHostAlloc");
    check(cudaMalloc(&lock, sizeof(unsigned)), "cudaMalloc");
    check(cudaMemsetAsync(lock, 0, sizeof(unsigned), opened->stream), "cudaMemset");
    opened->fault = {new (first) Fault, static_cast<unsigned*>(lock)};
    check(cudaMalloc(reinterpret_cast<void**>(&opened->step_offset), sizeof *opened->step_offset), "cudaMalloc");
    check(cudaMemsetAsync(opened->step_offset, 0, sizeof *opened->step_offset, opened->stream), "cudaMemset");
    g_context = opened;

    std::snprintf(facts->name, sizeof facts->name, "%s", properties.name);
    facts->major = properties.major;
    facts->minor = properties.minor;
    facts->multiprocessors = properties.multiProcessorCount;
    facts->memory_bytes = properties.totalGlobalMem;
    check(cudaRuntimeGetVersion(&facts->runtime_version), "cudaRuntimeGetVersion");
    check(cudaDriverGetVersion(&facts->driver_version), "cudaDriverGetVersion");
    open_libraries(*facts);
  });
}

Status allocate(std::size_t bytes, void** memory) {
  return guarded([&] {
    const AllowedInCapture allowed;
    const cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaErrorMemoryAllocation)
      cudaGetLastError();  // reported here; the next launch must not report it again
    check(error, "cudaMalloc");
  });
}

Status release(void* memory) {
  return guarded([&] { check(free_when_allowed(memory), "cudaFree"); });
}

Status free_memory(std::size_t* bytes) {
  return guarded([&] {
    std::size_t total = 0;
    check(cudaMemGetInfo(bytes, &total), "cudaMemGetInfo");
  });
}

cudaMemcpyKind kind_of(Copy kind) {
  switch (kind) {
    case Copy::kHostToDevice: return cudaMemcpyHostToDevice;
    case Copy::kDeviceToHost: return cudaMemcpyDeviceToHost;
    case Copy::kDeviceToDevice: break;
  }
  return cudaMemcpyDeviceToDevice;
}

Status copy_later(void* to, const void* from, std::size_t bytes, Copy kind) {
  return sending([&] { check(cudaMemcpyAsync(to, from, bytes, kind_of(kind), context().stream), "copy"); });
}

Status copy(void* to, const void* from, std::size_t bytes, Copy kind) {
  switch (kind) {
    case Copy::kHostToDevice:
      return sending([&] {
        require_no_capture("a copy from ordinary host memory");
        upload(to, from, bytes);
      });
    case Copy::kDeviceToHost:
      return guarded([&] {
        require_no_capture("a copy to ordinary host memory");
        const Status sent = copy_later(to, from, bytes, kind);
        if (sent != Status::kOk) throw Failure(sent, std::string(t_text));
        wait();
      });
    case Copy::kDeviceToDevice: break;
  }
  return copy_later(to, from, bytes, kind);
}

Status fill_zero(void* memory, std::size_t bytes) {
  return sending([&] { check(cudaMemsetAsync(memory, 0, bytes, context().stream), "cudaMemset"); });
}

Status allocate_pinned(std::size_t bytes, void** memory) {
  return guarded([&] {
    const AllowedInCapture allowed;
    const cudaError_t error = cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) cudaGetLastError();
    check(error, "cudaHostAlloc");
  });
}
Status release_pinned(void* memory) {
  return guarded([&] {
    const AllowedInCapture allowed;
    check(cudaFreeHost(memory), "cudaFreeHost");
  });
}

Status mark(std::uint64_t* number) {
  return guarded([&] { *number = set_mark(); });
}
Status reached(std::uint64_t number, int* yes) {
  return guarded([&] { *yes = has_reached(number) ? 1 : 0; });
}
Status wait_for(std::uint64_t number) {
  return guarded([&] { wait_for_mark(number); });
}
Status fetch_to_host(void* to, const void* from, std::size_t bytes, std::uint64_t number) {
  return guarded([&] { fetch(to, from, bytes, number); });
}

Status capture_begin() { return guarded(begin_capture); }
Status capture_end(void** graph) {
  return guarded([&] {
    Graph* captured = end_capture(graph != nullptr);
    if (graph != nullptr) *graph = captured;
  });
}
Status graph_launch(void* graph) {
  return sending([&] { run_graph(*static_cast<Graph*>(graph)); });
}
Status graph_release(void* graph) {
  return guarded([&] { destroy(static_cast<Graph*>(graph)); });
}

Status synchronize() { return guarded(wait); }

int has_kernel(int kernel) { return kKernels[kernel].there ? 1 : 0; }

Status run(int kernel, const void* args, const Watch& watch) {
  return sending([&] {
    context().amax_words = watch.words;
    context().observes_libraries = watch.libraries;
    kKernels[kernel].run(args);
  });
}

void take_fault(Fault* fault) {
  *fault = *context().fault.first;
  *context().fault.first = {};
}

Status plans(const char** text) {
  return guarded([&] {
    static thread_local std::string t_plans;
    t_plans = library_plans();
    *text = t_plans.c_str();
  });
}

Status notes(const char** text) {
  return guarded([&] {
    static thread_local std::string t_notes;
    t_notes = library_notes();
    *text = t_notes.c_str();
  });
}

Status use_plans(const char* text, int* taken) {
  return guarded([&] { *taken = use_library_plans(text); });
}

Status choose_plans(const PlanOptions* options) {
  return sending([&] { choose_library_plans(*options); });
}

std::uint64_t waits() { return g_context != nullptr ? g_context->waits.load() : 0; }

}  // namespace

Context& context() { return *g_context; }

/// Waits for a mark, since a stream that another thread captures meanwhile cannot be waited for.
void wait() {
  require_no_capture("waiting for the device");
  const std::uint64_t here = set_mark();
  ++context().waits;
  wait_for_mark(here);
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Failure(status_of(error),
                std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

}  // namespace binade::cuda

extern "C" __attribute__((visibility("default"))) const binade::cuda::Api* binade_cuda_api() {
  using namespace binade::cuda;
  static const Api api{.abi = kAbi,
                       .last_error = &last_error,
                       .count = &count,
                       .open = &open,
                       .allocate = &allocate,
                       .release = &release,
                       .free_memory = &free_memory,
                       .copy = &copy,
                       .fill_zero = &fill_zero,
                       .synchronize = &synchronize,
                       .has_kernel = &has_kernel,
                       .run = &run,
                       .take_fault = &take_fault,
                       .waits = &waits,
                       .plans = &plans,
                       .use_plans = &use_plans,
                       .choose_plans = &choose_plans,
                       .notes = &notes,
                       .allocate_pinned = &allocate_pinned,
                       .release_pinned = &release_pinned,
                       .copy_later = &copy_later,
                       .mark = &mark,
                       .reached = &reached,
                       .wait_for = &wait_for,
                       .fetch = &fetch_to_host,
                       .capture_begin = &capture_begin,
                       .capture_end = &capture_end,
                       .graph_launch = &graph_launch,
                       .graph_release = &graph_release};
  return &api;
}
