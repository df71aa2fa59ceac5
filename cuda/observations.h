#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binade/core/observation.h"
#include "binade/cuda/api.h"

namespace binade::cuda {

/// A ring of device words that kernels observe into (core/observation.h), one pair per number; kernels that are not
/// watched observe nothing. Numbers are assigned without waiting; the first query for one that is not on the host
/// downloads all outstanding ones.
class Observations {
 public:
  explicit Observations(const Api& api);

  /// Returns where the next call is observed.
  Watch watch();
  /// Returns the current number and starts a new one if anything ran under it, otherwise 0.
  std::int64_t next();
  /// Returns what was observed under `number`. Throws the device's errors.
  Observation at(std::int64_t number);

  /// From now on numbers begin at kCapturedObservations, and kernels observe into `words`, `capacity` pairs of device
  /// memory.
  void begin_capture(std::uint32_t* words, std::int64_t capacity);
  /// Returns to the ring. Returns how many pairs were requested, which may exceed the capacity.
  std::int64_t end_capture();

 private:
  struct Recorded {
    std::uint32_t* words = nullptr;
    std::int64_t capacity = 0;
    std::int64_t count = 0;
    bool touched_before = false;
  };
  static constexpr std::int64_t kSlots = 1 << 14;
  void download();
  std::uint32_t* slot(std::int64_t number) const { return words_ + 2 * (number % kSlots); }

  const Api& api_;
  std::uint32_t* words_ = nullptr;         // on the device
  std::vector<std::uint32_t> host_words_;  // the host's copy of the words
  std::int64_t current_ = 1;
  std::int64_t outstanding_ = 1;  // first number that is not in host_words_
  bool touched_ = false;
  std::optional<Recorded> recorded_;  // while something is recorded
};

}  // namespace binade::cuda
