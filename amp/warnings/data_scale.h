#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/amp/watch/telemetry.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects that the data of a run has another magnitude than before: all inputs grow when a curriculum goes on, or
/// another data set or normalization begins. Losses and gradients then change with the data, and say nothing about the
/// weights: detectors that compare them with those of earlier steps must not, or must begin again.
///
/// Telemetry has the largest magnitude of the floating operands that each op call reads from outside of the tape. The
/// data of a step is unusual if, for one of these op calls, the magnitude differs by more than half a binade and by
/// more than four robust deviations from the median of the latest 128 usual steps, of which there must be five, or from
/// the first usual step. After eight unusual steps in a row the change lasts, and these eight become the usual ones.
/// Constants, such as masks, never differ. Magnitudes that are 0 or not finite are ignored. Without telemetry, no data
/// is unusual.
class DataScale {
 public:
  static constexpr const char* kSection = "data_scale";  ///< name of the state in checkpoints
  enum class Change : std::uint8_t {
    kNone,     ///< the data is as usual
    kUnusual,  ///< this step's data is unusual: for a while, or for good
    kLasts,    ///< the latest eight steps had unusual data, which is the usual one from now on
  };
  /// Adds the data of a committed step.
  Change observe(const Telemetry& telemetry);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  /// An op call that reads data.
  struct Reader {
    std::string module{}, op{};
    std::vector<double> usual{};    // log2 of the largest magnitude in the first and in the latest usual steps
    std::vector<double> unusual{};  // the same in the latest steps, if they are unusual
  };
  std::vector<Reader> readers_;
  std::int64_t unusual_steps_ = 0;  // number of latest steps in a row with unusual data
};

}  // namespace binade::amp
