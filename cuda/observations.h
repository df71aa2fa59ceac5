#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binade/core/observation.h"
#include "binade/cuda/api.h"

namespace binade::cuda {

/// The ring of device words that kernels observe into (core/observation.h), one pair a number; kernels that nobody
/// watches observe nothing. Numbers are handed out without waiting; the first question about one that is not here
/// brings all that are outstanding.
class Observations {
 public:
  explicit Observations(const Api& api);

  /// Who watches what is about to run.
  Watch watch();
  /// The current number, where anything ran under it, and a fresh one after it; else 0.
  std::int64_t next();
  /// What was seen under `number`. Throws what the device throws.
  Observation at(std::int64_t number);

  /// From here on numbers are kRecordedObservations and those behind it, and kernels observe into `words`, `capacity`
  /// pairs of device memory.
  void begin_recording(std::uint32_t* words, std::int64_t capacity);
  /// Goes on where the ring was left. Returns how many pairs were asked for, which may be more than there are.
  std::int64_t end_recording();

 private:
  struct Recorded {
    std::uint32_t* words = nullptr;
    std::int64_t capacity = 0;
    std::int64_t count = 0;
    bool touched_before = false;
  };
  static constexpr std::int64_t kSlots = 1 << 14;
  void bring();
  std::uint32_t* slot(std::int64_t number) const { return words_ + 2 * (number % kSlots); }

  const Api& api_;
  std::uint32_t* words_ = nullptr;   // on the device
  std::vector<std::uint32_t> here_;  // the same, as last brought
  std::int64_t current_ = 1;
  std::int64_t outstanding_ = 1;  // the first that has not been brought
  bool touched_ = false;
  std::optional<Recorded> recorded_;  // while something is recorded
};

}  // namespace binade::cuda
