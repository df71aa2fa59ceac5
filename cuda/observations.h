#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binade/core/observation.h"
#include "binade/cuda/api.h"

namespace binade::cuda {

/// A ring buffer of device words in which kernels record observed maxima (core/observation.h). Each number that next()
/// returns stands for one pair of words, and for the watched kernels that ran since the number before it. Kernels that
/// are not watched record nothing. Numbers are assigned without waiting; the first query for a number whose words are
/// not on the host downloads all outstanding words.
class Observations {
 public:
  explicit Observations(const Api& api);

  /// Makes the next kernel a watched one, if the current op is observed. Returns the address of the two device words in
  /// which that kernel records the largest magnitudes that it stored; null if the op is not observed.
  Watch watch_next_kernel();
  /// Returns the current number and begins a new one if a watched kernel ran under it, otherwise returns 0.
  std::int64_t next();
  /// Returns the maxima that were observed under `number`. Throws the device's errors.
  Observation at(std::int64_t number);

  /// From now on numbers begin at kCapturedObservations, and kernels record their maxima in `words`, which has
  /// `capacity` pairs in device memory.
  void begin_capture(std::uint32_t* words, std::int64_t capacity);
  /// Ends begin_capture(): kernels use the ring buffer again. Returns how many pairs were requested, which may exceed
  /// the capacity.
  std::int64_t end_capture();

 private:
  /// The words of a captured graph, and how many pairs of them are in use.
  struct Recorded {
    std::uint32_t* words = nullptr;
    std::int64_t capacity = 0;    ///< number of pairs that fit
    std::int64_t count = 0;       ///< number of pairs in use
    bool touched_before = false;  ///< value of touched_ before the capture
  };
  static constexpr std::int64_t kSlots = 1 << 14;  ///< pairs of words in the ring buffer
  void download();
  std::uint32_t* slot(std::int64_t number) const { return words_ + 2 * (number % kSlots); }

  const Api& api_;
  std::uint32_t* words_ = nullptr;         // the ring buffer, on the device
  std::vector<std::uint32_t> host_words_;  // the host's copy of the words
  std::int64_t current_ = 1;               // number under which kernels record now
  std::int64_t outstanding_ = 1;           // first number that is not in host_words_
  bool touched_ = false;                   // a watched kernel ran under current_
  std::optional<Recorded> recorded_;       // set during a capture
};

}  // namespace binade::cuda
