#include "binade/core/runtime.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/cpu_threads.h"
#include "binade/core/error.h"
#include "binade/core/gpus.h"
#include "binade/core/per_thread.h"
#include "binade/core/standard_descriptors.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

std::mutex g_mutex;
std::vector<Runtime*> g_alive;           // guarded by g_mutex
std::atomic<Runtime*> g_only = nullptr;  // the Runtime of a process that has exactly one
std::atomic<std::size_t> g_count = 0;    // g_alive.size()

/// Called after g_alive was changed, with g_mutex held.
void count_alive() {
  g_only = g_alive.size() == 1 ? g_alive.front() : nullptr;
  g_count = g_alive.size();
}

/// Refers to this thread's own Runtime, the one that it created or that of its RuntimeScope; null if it has none. The
/// inner pointer becomes null when the Runtime is destroyed.
std::shared_ptr<std::atomic<Runtime*>>& thread_runtime() {
  constinit thread_local PerThread<std::shared_ptr<std::atomic<Runtime*>>> runtime;
  return runtime.get();
}
Runtime* find_thread_runtime() {
  const auto& self = thread_runtime();
  return self != nullptr ? self->load(std::memory_order_acquire) : nullptr;
}

/// Throws ArgumentError if the rules for library plans differ, because all Runtimes of a process share these plans.
void check_plan_rules(const RuntimeOptions& options, const RuntimeOptions& alive) {
  check<ArgumentError>(options.deterministic == alive.deterministic && options.timed_plans == alive.timed_plans,
                       "Runtime: wanted deterministic = {} and timed_plans = {}, as the Runtime that uses the GPU has "
                       "them, got {} and {}; give all Runtimes of a process the same rules",
                       alive.deterministic, alive.timed_plans, options.deterministic, options.timed_plans);
}

}  // namespace

Runtime::Runtime(const RuntimeOptions& options) : options_(options), cpu_threads_(std::make_unique<CpuThreads>()) {
  check<ArgumentError>(find_thread_runtime() == nullptr,
                       "Runtime: this thread has one already; destroy it before making another, or make the other on a "
                       "thread of its own");
  check<ArgumentError>(options.threads >= 0 && options.threads <= 1024, "Runtime: wanted 0 to 1024 threads, got {}",
                       options.threads);
  const std::lock_guard lock(g_mutex);
  open_standard_descriptors();
  cpu_threads_->set_count(options.threads);
  if (options.device != Device::cpu())
    for (const Runtime* alive : g_alive)
      if (alive->device() != Device::cpu()) check_plan_rules(options, alive->options_);
  backend_of(options.device);  // opens the device, or throws
  if (options.device != Device::cpu())
    gpus::choose_plans({.timed = options.timed_plans, .deterministic = options.deterministic});
  g_alive.push_back(this);
  count_alive();
  step_context() = StepContext{.seed = options.seed};
  thread_runtime() = self_;
}

Runtime::~Runtime() {
  self_->store(nullptr, std::memory_order_release);
  const std::lock_guard lock(g_mutex);
  std::erase(g_alive, this);
  count_alive();
}

RandomStream Runtime::next_init_stream() { return {options_.seed, RngPurpose::kInit, 0, 0, initialized_++}; }

Runtime* Runtime::find_current() {
  Runtime* const mine = find_thread_runtime();
  return mine != nullptr ? mine : g_only.load(std::memory_order_acquire);
}

Device Runtime::current_device() { return g_count.load() == 0 ? Device::cpu() : current().device(); }

Runtime& Runtime::current() {
  Runtime* const found = find_current();
  if (found != nullptr) return *found;
  check<ArgumentError>(g_count.load() != 0,
                       "Runtime: no Runtime exists; make a binade::Runtime before models and tensors' ops");
  throw ArgumentError(
      fmt::format("Runtime: this thread has none, and the process has {}; open a binade::RuntimeScope for one of them "
                  "on this thread",
                  g_count.load()));
}

InheritedRuntime::InheritedRuntime() : self_(thread_runtime()) {}

RuntimeScope::RuntimeScope(Runtime& runtime) : RuntimeScope(runtime.self_) {}
RuntimeScope::RuntimeScope(const InheritedRuntime& runtime) : RuntimeScope(runtime.self_) {}
RuntimeScope::RuntimeScope(std::shared_ptr<Runtime::Self> self)
    : outer_(std::exchange(thread_runtime(), std::move(self))), outer_seed_(step_context().seed) {
  if (const Runtime* const runtime = find_thread_runtime()) step_context().seed = runtime->seed();
}
RuntimeScope::~RuntimeScope() {
  thread_runtime() = std::move(outer_);
  step_context().seed = outer_seed_;
}

}  // namespace binade
