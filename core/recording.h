#pragma once

#include <cstddef>
#include <cstdint>

namespace binade {

/// The first number of what kernels observe while they are recorded (core/observation.h).
inline constexpr std::int64_t kRecordedObservations = std::int64_t{1} << 62;

/// Work of a device that was recorded once and runs again as a whole (on a GPU: a CUDA graph, one launch). Its memory
/// has fixed addresses. Memory that the recorded body used and did not take itself must outlive it. What the body took
/// and gave back lies in an arena that other recordings share and that is lent between runs (LentArenas): nothing is to
/// be read there when the run is over.
class Recording {
 public:
  virtual ~Recording() = default;

  /// Sends it to the device, behind what was sent before. Does not wait. Throws DeviceError, with nothing sent, while
  /// any of its arena is in use by others.
  virtual void run() = 0;

  virtual std::size_t arena_bytes() const = 0;  ///< of its arena, what it works in
  virtual std::size_t arena_bound() const = 0;  ///< the most of it that is used at once

  /// Words that its kernels observe into: pair i (low, wide) belongs to the number kRecordedObservations + i that was
  /// handed out while recording. Device memory, cleared at the beginning of each run.
  virtual const std::uint32_t* observations() const = 0;
  virtual std::int64_t observation_count() const = 0;
};

}  // namespace binade
