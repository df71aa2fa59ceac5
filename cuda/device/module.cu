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

/// Runs `body`, and converts an exception to a status and a text.
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

/// Like guarded(), for code that submits work to the stream: holds Context::mutex.
template <class F>
Status submitting(F&& body) {
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
  bool defined;
  void (*run)(const void* args);
};

const Entry kKernels[] = {
#define BINADE_ENTRY(name, Args) \
  {run_##name != nullptr, [](const void* args) { run_##name(*static_cast<const Args*>(args)); }},
    BINADE_KERNELS(BINADE_ENTRY) BINADE_DEVICE_KERNELS(BINADE_ENTRY)
#undef BINADE_ENTRY
};

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
    Context* opened = new Context;  // never destroyed: the CUDA driver may shut down first
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
    const AllocationInCapture allowed;
    const cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaErrorMemoryAllocation)
      cudaGetLastError();  // resets the runtime's last error, which is reported here, so that the next launch does not
                           // report it
    check(error, "cudaMalloc");
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
  return submitting([&] { check(cudaMemcpyAsync(to, from, bytes, kind_of(kind), context().stream), "copy"); });
}

Status copy(void* to, const void* from, std::size_t bytes, Copy kind) {
  switch (kind) {
    case Copy::kHostToDevice:
      return submitting([&] {
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

Status allocate_pinned(std::size_t bytes, void** memory) {
  return guarded([&] {
    const AllocationInCapture allowed;
    const cudaError_t error = cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) cudaGetLastError();
    check(error, "cudaHostAlloc");
  });
}

Status run(int kernel, const void* args, const Watch& watch) {
  return submitting([&] {
    context().amax_words = watch.words;
    context().observes_libraries = watch.libraries;
    plan_gate().refuse_all(watch.own);
    kKernels[kernel].run(args);
  });
}

void take_fault(Fault* fault) {
  *fault = *context().fault.first;
  *context().fault.first = {};
}

/// Stores the text that kText returns until this thread's next call of the same function.
template <std::string (*kText)()>
Status text_of(const char** text) {
  return guarded([&] {
    static thread_local std::string t_kept;
    t_kept = kText();
    *text = t_kept.c_str();
  });
}

std::string recorded_keys() {
  const std::lock_guard lock(context().mutex);
  return plan_gate().take_recorded();
}

}  // namespace

Context& context() { return *g_context; }

/// Waits for a mark and not for the stream, because a stream that another thread captures cannot be waited for.
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
  static const Api api = [] {
    Api a{};
    a.abi = kAbi;
    a.last_error = [] { return static_cast<const char*>(t_text); };
    a.count = &count;
    a.open = &open;
    a.allocate = &allocate;
    a.release = [](void* memory) { return guarded([&] { check(free_when_allowed(memory), "cudaFree"); }); };
    a.free_memory = [](std::size_t* bytes) {
      std::size_t total = 0;
      return guarded([&] { check(cudaMemGetInfo(bytes, &total), "cudaMemGetInfo"); });
    };
    a.copy = &copy;
    a.fill_zero = [](void* memory, std::size_t bytes) {
      return submitting([&] { check(cudaMemsetAsync(memory, 0, bytes, context().stream), "cudaMemset"); });
    };
    a.synchronize = [] { return guarded(wait); };
    a.has_kernel = [](int kernel) { return kKernels[kernel].defined ? 1 : 0; };
    a.run = &run;
    a.take_fault = &take_fault;
    a.waits = [] { return g_context != nullptr ? g_context->waits.load() : 0; };
    a.plans = &text_of<library_plans>;
    a.use_plans = [](const char* text, int* taken) { return guarded([&] { *taken = use_library_plans(text); }); };
    a.choose_plans = [](const PlanOptions* options) { return submitting([&] { choose_library_plans(*options); }); };
    a.refuse_keys = [](const char* keys) { return submitting([&] { plan_gate().refuse(keys); }); };
    a.recorded_keys = &text_of<recorded_keys>;
    a.notes = &text_of<library_notes>;
    a.allocate_pinned = &allocate_pinned;
    a.release_pinned = [](void* memory) {
      const AllocationInCapture allowed;
      return guarded([&] { check(cudaFreeHost(memory), "cudaFreeHost"); });
    };
    a.copy_later = &copy_later;
    a.mark = [](std::uint64_t* number) { return guarded([&] { *number = set_mark(); }); };
    a.reached = [](std::uint64_t number, int* yes) { return guarded([&] { *yes = has_reached(number) ? 1 : 0; }); };
    a.wait_for = [](std::uint64_t number) { return guarded([&] { wait_for_mark(number); }); };
    a.fetch = [](void* to, const void* from, std::size_t bytes, std::uint64_t number) {
      return guarded([&] { fetch(to, from, bytes, number); });
    };
    a.capture_begin = [] { return guarded(begin_capture); };
    a.capture_end = [](void** graph) {
      return guarded([&] {
        Graph* captured = end_capture(graph != nullptr);
        if (graph != nullptr) *graph = captured;
      });
    };
    a.graph_launch = [](void* graph) { return submitting([&] { run_graph(*static_cast<Graph*>(graph)); }); };
    a.graph_release = [](void* graph) { return guarded([&] { destroy(static_cast<Graph*>(graph)); }); };
    return a;
  }();
  return &api;
}
