#pragma once

#include <cstdint>

#include "binade/core/device.h"
#include "binade/core/random.h"

namespace binade {

struct RuntimeOptions {
  Device device = Device::cpu();
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: one per core this process may use
  /// The same bits every time. Without, libraries of a GPU may add in any order; the CPU gives the same bits anyway.
  bool deterministic = true;
  bool timed_plans = true;  ///< on a GPU, algorithms of libraries are chosen by time (gpus::PlanRules)
};

/// What a program makes first: picks the device, fills the kernel slots, sets the thread pool, owns the seed. One at a
/// time; modules made while it lives draw their initial weights from it. Not copyable.
class Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Device device() const { return options_.device; }
  std::uint64_t seed() const { return options_.seed; }
  bool deterministic() const { return options_.deterministic; }

  /// The stream for the next parameter to be initialized: keyed by how many came before it.
  RandomStream next_init_stream();

  /// The one that lives. Throws ArgumentError saying to make one.
  static Runtime& current();
  /// The device of the one that lives; the CPU where none does.
  static Device current_device();

 private:
  RuntimeOptions options_;
  std::uint32_t initialized_ = 0;
};

}  // namespace binade
