#include "binade/core/runtime.h"

#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/gpus.h"
#include "binade/core/parallel.h"
#include "binade/core/standard_descriptors.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {
Runtime* g_current = nullptr;
}

Runtime::Runtime(const RuntimeOptions& options) : options_(options) {
  check<ArgumentError>(g_current == nullptr, "Runtime: one is alive already; destroy it before making another");
  check<ArgumentError>(options.threads >= 0 && options.threads <= 1024, "Runtime: wanted 0 to 1024 threads, got {}",
                       options.threads);
  open_standard_descriptors();
  set_num_threads(options.threads);
  backend_of(options.device);  // opens the device, or throws
  if (options.device != Device::cpu())
    gpus::choose_plans({.timed = options.timed_plans, .deterministic = options.deterministic});
  step_context() = StepContext{};
  step_context().seed = options.seed;
  g_current = this;
}

Runtime::~Runtime() { g_current = nullptr; }

RandomStream Runtime::next_init_stream() { return {options_.seed, RngPurpose::kInit, 0, 0, initialized_++}; }

Device Runtime::current_device() { return g_current != nullptr ? g_current->device() : Device::cpu(); }

Runtime& Runtime::current() {
  check<ArgumentError>(g_current != nullptr,
                       "Runtime: none is alive; make a binade::Runtime before models and tensors' ops");
  return *g_current;
}

}  // namespace binade
