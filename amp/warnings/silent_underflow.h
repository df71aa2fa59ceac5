#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Finds values that underflow when they are rounded to 16 bits, and distinguishes them from intended zeros.
///
/// It looks at every 50th step. A place is suspect when its largest magnitude rounds to 0, or when more than half of a
/// sample of the gradients that it gives is 0. The first proves itself. The second may be a ReLU, a mask, an embedding
/// row that no token used: a suspect of three looks (100 steps) is settled by running the step's backward once more at
/// a higher loss scale. Zeros that were flushed become nonzero there; if more than half of the values that are then
/// nonzero were zero before, the warning is reported. Zeros that stay are recorded as legal.
class SilentUnderflow {
 public:
  static constexpr const char* kSection = "underflow";
  static constexpr std::int64_t kEvery = 50;
  static constexpr int kLooks = 3;

  bool due(std::int64_t step) const { return step % kEvery == 0; }
  /// By how much to raise the loss scale of a run of this step that settles a doubt; nothing while there is no doubt,
  /// or no room for a higher scale. Pass that run's telemetry, with zeros counted, to look().
  std::optional<double> proof_factor(std::int64_t step) const;
  /// A committed step that is due; `seen` with zeros counted. Returns at most one warning, for the place where values
  /// begin to vanish; every place is reported once in a run.
  std::optional<Warning> look(std::int64_t step, double loss_scale, const Telemetry& seen, const Telemetry* raised);
  void find(const CommittedStep& step, std::vector<Warning>& found) {
    if (!due(step.step)) return;
    if (auto warning = look(step.step, step.loss_scale, step.seen, step.raised)) found.push_back(std::move(*warning));
  }

  StateDict state() const;
  /// An empty state starts over. Throws CheckpointError on one that no run leaves behind.
  void load_state(const StateDict& state);

 private:
  struct Place {
    std::string module{}, op{};
    std::int64_t probes = 0;  // in a row at which it was suspect
    bool vanished = false;    // at the last look
    bool told = false;
    double legal = 0.5;  // share of zeros that means nothing
  };
  struct Found {
    std::size_t place{};
    double lost{};  // share of the nonzero values that were lost
  };
  std::vector<Found> look_at(std::vector<Place>& places, std::span<const Telemetry::Slot> seen,
                             std::span<const Telemetry::Slot> raised, bool settled);

  std::vector<Place> forward_, backward_;  // by tape index
  double headroom_ = 0;                    // least backward headroom of the last look
};

}  // namespace binade::amp
