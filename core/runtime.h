#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "binade/core/device.h"
#include "binade/core/random.h"
#include "binade/core/scope.h"

namespace binade {

class CpuThreads;

/// Settings of a Runtime.
struct RuntimeOptions {
  Device device = Device::cpu();
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: one per core that this process may use
  /// True if results have the same bits every time. False allows GPU libraries to add in any order; the CPU is always
  /// deterministic.
  bool deterministic = true;
  bool timed_plans = true;  ///< true if algorithms of GPU libraries are chosen by time (gpus::PlanRules)
};

/// Opens the device, fills its kernel table, owns the CPU threads and the seed. A program creates a Runtime before
/// other objects of Binade. Modules draw their initial weights from its random streams.
///
/// A Runtime is current on the thread that created it. A process may have several, each created on a different thread;
/// they share only the device and the library plans of a GPU. A thread without a Runtime uses the only Runtime of the
/// process. If there are several, a RuntimeScope selects the one that the thread uses.
class Runtime : NonCopyable {
 public:
  /// Throws ArgumentError if this thread has a Runtime already, or if another Runtime uses the GPU with other rules for
  /// library plans. Throws DeviceError if the device is not available; the text says why.
  explicit Runtime(const RuntimeOptions& options = {});
  ~Runtime();

  Device device() const { return options_.device; }
  std::uint64_t seed() const { return options_.seed; }
  bool deterministic() const { return options_.deterministic; }

  CpuThreads& cpu_threads() { return *cpu_threads_; }

  /// Returns the random stream for the next parameter to be initialized. The index of the stream is the number of
  /// earlier calls. If threads share the Runtime, the order of their calls determines the bits.
  RandomStream next_init_stream();

  /// Returns the Runtime that this thread uses: its own, else the only one of the process. Throws ArgumentError if
  /// there is none, or if there are several.
  static Runtime& current();
  /// Like current(), but returns null instead of throwing.
  static Runtime* find_current();
  /// Returns the device of current(), or the CPU if the process has no Runtime. Throws ArgumentError if there are
  /// several and none of them is this thread's own.
  static Device current_device();

 private:
  friend class InheritedRuntime;
  friend class RuntimeScope;
  using Self = std::atomic<Runtime*>;

  RuntimeOptions options_;
  std::unique_ptr<CpuThreads> cpu_threads_;
  std::atomic<std::uint32_t> initialized_ = 0;
  std::shared_ptr<Self> self_ = std::make_shared<Self>(this);  // holds null once the Runtime is destroyed
};

/// The Runtime that a thread passes on to a thread that it starts:
///
///     std::thread worker([runtime = InheritedRuntime()] {
///       const RuntimeScope scope(runtime);
///       …
///     });
class InheritedRuntime {
 public:
  /// Takes this thread's own Runtime, or none if it has none.
  InheritedRuntime();

 private:
  friend class RuntimeScope;
  std::shared_ptr<Runtime::Self> self_;
};

/// During its lifetime, this thread uses a Runtime that another thread created, with its seed. If that Runtime is
/// destroyed meanwhile, the thread has none of its own.
class RuntimeScope : NonCopyable {
 public:
  explicit RuntimeScope(Runtime& runtime);
  explicit RuntimeScope(const InheritedRuntime& runtime);
  ~RuntimeScope();

 private:
  explicit RuntimeScope(std::shared_ptr<Runtime::Self> self);
  std::shared_ptr<Runtime::Self> outer_;
  std::optional<std::uint64_t> outer_seed_;
};

}  // namespace binade
