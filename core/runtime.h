#pragma once

#include <cstdint>

#include "binade/core/device.h"
#include "binade/core/random.h"
#include "binade/core/scope.h"

namespace binade {

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

/// Opens the device, fills its kernel table, sets the number of CPU threads and owns the seed. A program creates a
/// Runtime before other objects of Binade, and only one at a time. Modules draw their initial weights from its random
/// streams.
class Runtime : NonCopyable {
 public:
  explicit Runtime(const RuntimeOptions& options = {});
  ~Runtime();

  Device device() const { return options_.device; }
  std::uint64_t seed() const { return options_.seed; }
  bool deterministic() const { return options_.deterministic; }

  /// Returns the random stream for the next parameter to be initialized. The index of the stream is the number of
  /// earlier calls.
  RandomStream next_init_stream();

  /// Returns the existing Runtime. Throws ArgumentError if there is none.
  static Runtime& current();
  /// Returns the device of the existing Runtime, or the CPU if there is none.
  static Device current_device();

 private:
  RuntimeOptions options_;
  std::uint32_t initialized_ = 0;
};

}  // namespace binade
