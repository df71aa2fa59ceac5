#pragma once

#include <cstdint>

#include "binade/core/kernels/step.h"
#include "binade/core/state_dict.h"
#include "binade/optim/ema_options.h"
#include "binade/optim/flat_parameters.h"

namespace binade::optim {

/// Exponential moving average of all weights: a = decay a + (1 - decay) w after each update, in f32, from a = w before
/// the first. Kept in one flat buffer.
class Ema {
 public:
  /// Throws ArgumentError unless 0 <= decay < 1 and at most one of warmup and debias is on.
  Ema(FlatParameters& parameters, const EmaOptions& options = {});

  /// Makes one update from the current values.
  void update();
  /// Launches an update as part of a step that the device decides (core/kernels/step.h), whose numbers hold
  /// next_weight(); committed() is called after the device has committed that step.
  void launch(const StepPlaces& places);
  void committed();
  float next_weight(std::int64_t ahead = 0) const;  ///< or of the update so many later
  std::int64_t updates() const { return updates_; }
  Tensor average(std::size_t slice) const { return parameters_->view(averages_, slice); }

  /// "updates", "average/NAME". Tensors alias.
  StateDict state() const;
  void check_state(const StateDict& state) const;
  void load_state(const StateDict& state);

  /// While one lives, the variables' values are the averages (for evaluation and export). 16-bit copies follow.
  class Scope {
   public:
    explicit Scope(Ema& ema);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Kept {
      Tensor value{}, low{};
      std::uint64_t low_version = 0;
      LowPlace low_place{};
    };
    Ema& ema_;
    std::vector<Kept> kept_;
  };

 private:
  template <class F>
  void with_arguments(F&& f);

  FlatParameters* parameters_;
  EmaOptions options_;
  Tensor averages_;
  std::int64_t updates_ = 0;
};

}  // namespace binade::optim
