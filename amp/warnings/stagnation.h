#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects training that stagnates because updates are too small for the weights: the loss does not change although
/// there are gradients.
///
/// At every 50th step it compares a sample of the weights before and after the update. When more than 99 % of those
/// with a gradient kept their bits in three checks in a row (100 steps), it reports this, once per dtype and run, with
/// the learning rate above which they would move. Weights that are rounded stochastically move on average and are left
/// out, as are steps whose learning rate is 100 times below the largest one so far: a schedule that ends near 0 is
/// intended.
class Stagnation {
 public:
  static constexpr const char* kSection = "stagnation";
  static constexpr std::int64_t kEvery = 50;
  static constexpr int kLooks = 3;

  bool due(std::int64_t step) const { return step % kEvery == 0; }
  /// Before the update of a step that is due.
  void before_update(optim::FlatParameters& parameters);
  /// After that update, with the input it was given. `stochastic`: 16-bit weights are rounded stochastically.
  std::optional<Warning> after_update(std::int64_t step, const optim::Optimizer& optimizer,
                                      const optim::StepInput& input, bool stochastic);
  void find(const CommittedStep& step, std::vector<Warning>& found) {
    if (!due(step.step)) return;
    if (auto warning = after_update(step.step, step.optimizer, step.input, step.stochastic))
      found.push_back(std::move(*warning));
  }
  /// Root mean square of the changes of the last sampled update; 0 before the first.
  double update_rms() const { return update_rms_; }

  StateDict state() const;
  /// An empty state starts over. Throws CheckpointError on one that no run leaves behind.
  void load_state(const StateDict& state);

 private:
  struct Weight {
    std::size_t slice{};
    std::int64_t index{};
    double value{}, gradient{};  // the stored gradient: multiplied by the loss scale, not clipped
  };
  struct Group {
    std::int64_t probes = 0;  // in a row at which it stood still
    std::int64_t told = 0;
  };
  Group& group_of(DType dtype) { return groups_[static_cast<std::size_t>(dtype)]; }

  std::vector<Weight> sample_;   // only between before and after
  std::array<Group, 3> groups_;  // by dtype: f32, f16, bf16
  double largest_lr_ = 0;
  double update_rms_ = 0;
};

}  // namespace binade::amp
