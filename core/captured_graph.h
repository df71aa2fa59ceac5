#pragma once

#include <cstddef>
#include <cstdint>

namespace binade {

/// The first observation number of kernels in a captured graph (core/observation.h).
inline constexpr std::int64_t kCapturedObservations = std::int64_t{1} << 62;

/// A captured graph: device work that was recorded once and runs again as a whole (on a GPU, a CUDA graph in one
/// launch). Its memory has fixed addresses. Memory that the captured body used but did not allocate must outlive the
/// graph. Memory that the body allocated and released is in an arena that other graphs share and eager work borrows
/// (ArenaLoan); its contents are undefined after the run.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;

  /// Submits the graph after all earlier work. Does not wait. Throws DeviceError and submits nothing if part of its
  /// arena is on loan.
  virtual void run() = 0;

  virtual std::size_t arena_bytes() const = 0;  ///< size of its arena
  virtual std::size_t arena_bound() const = 0;  ///< largest number of arena bytes in use at once

  /// Device memory that its kernels observe into, cleared at the beginning of each run. Pair i (low, wide) belongs to
  /// the number kCapturedObservations + i, which was handed out during capture.
  virtual const std::uint32_t* observations() const = 0;
  virtual std::int64_t observation_count() const = 0;
};

}  // namespace binade
