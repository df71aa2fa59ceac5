#pragma once

#include <cstdint>

#include "binade/core/kernels/step.h"
#include "binade/core/state_dict.h"
#include "binade/optim/averaged_weights.h"
#include "binade/optim/ema_options.h"
#include "binade/optim/flat_parameters.h"

namespace binade::optim {

/// Exponential moving average of all weights: after each update of the weights w, a = decay a + (1 - decay) w in f32.
/// Before the first update a = w. The averages are in one flat buffer with the layout of FlatParameters.
class Ema {
 public:
  /// Throws ArgumentError unless 0 <= decay < 1 and at most one of warmup and debias is on.
  Ema(FlatParameters& parameters, const EmaOptions& options = {});

  /// Updates the averages from the current weights.
  void update();
  /// Launches an update of the averages as part of a step that the device commits or refuses without the host
  /// (core/kernels/step.h). The numbers of that step must contain next_weight(). Call committed() after the device has
  /// committed the step.
  void launch(const StepAddresses& addresses);
  void committed();
  /// Returns the weight of w in the next update (1 - decay without warm-up and debias) or, if `ahead` > 0, in the
  /// update `ahead` updates later.
  float next_weight(std::int64_t ahead = 0) const;
  const EmaOptions& options() const { return options_; }
  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  /// True if no average is a NaN or an infinity. After an update on a CPU this is known; after any other write, the
  /// call reads all averages.
  bool finite();
  /// Replaces each average that is not finite by decay^n a + (1 - decay^n) w, where w is the present weight and a the
  /// average in `saved`, a state() from n updates ago: the value that n updates with the weight w would give. If
  /// `saved` is null or its a is not finite, the average becomes w.
  void mend(const StateDict* saved);
  FlatParameters& parameters() const { return *parameters_; }
  /// Returns all averages as one tensor.
  const Tensor& values() const { return averages_; }
  /// Returns the average of parameter `slice`, an index into FlatParameters::slices().
  Tensor average(std::size_t slice) const { return parameters_->view(averages_, slice); }

  /// Returns the entries "updates" and, for each parameter, "average/NAME". The tensors are views of the averages, not
  /// copies.
  StateDict state() const;
  void check_state(const StateDict& state) const;
  void load_state(const StateDict& state);

  /// During the lifetime of the object, the values of the model's parameters are the averages.
  struct Scope : AveragedWeights {
    explicit Scope(Ema& ema) : AveragedWeights(*ema.parameters_, ema.averages_) {}
  };

 private:
  template <class F>
  void with_arguments(F&& f, std::span<std::uint32_t> largest = {});

  FlatParameters* parameters_;
  EmaOptions options_;
  Tensor averages_;
  std::int64_t updates_ = 0;
  bool finite_ = true;  // of the averages of version finite_version_
  std::uint64_t finite_version_ = 0;
};

}  // namespace binade::optim
