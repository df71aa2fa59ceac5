#pragma once

#include <cstddef>
#include <cstdint>

namespace binade {

/// Values of Observation::pending from this one on belong to kernels in captured graphs, smaller ones to eager kernels.
inline constexpr std::int64_t kCapturedObservations = std::int64_t{1} << 62;

/// A captured graph: device work that was recorded once and runs again as a whole (on a GPU, a CUDA graph in one
/// launch). Its memory has fixed addresses. Memory that the captured function used but did not allocate must outlive
/// the graph. Memory that the function allocated and released is in an arena that other graphs share and that eager
/// work borrows (ArenaLoan), so its contents are undefined when the graph has run.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;

  /// Submits the graph for execution after all work submitted so far. Does not wait. Throws DeviceError and submits
  /// nothing if part of the graph's arena is on loan.
  virtual void run() = 0;

  virtual std::size_t arena_bytes() const = 0;  ///< size of its arena
  virtual std::size_t arena_bound() const = 0;  ///< largest number of arena bytes in use at once

  /// Returns device memory that the graph's kernels write observations to (core/observation.h): observation_count()
  /// pairs (low, wide), which are cleared when the graph begins to run. Pair i belongs to Observation::pending ==
  /// kCapturedObservations + i, a number that was handed out during capture.
  virtual const std::uint32_t* observations() const = 0;
  virtual std::int64_t observation_count() const = 0;
};

}  // namespace binade
