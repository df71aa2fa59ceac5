#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "binade/core/kernels/optimizer.h"
#include "binade/optim/flat_parameters.h"
#include "binade/optim/step_input.h"

namespace binade::optim {

/// Largest magnitudes of one parameter and of its moments.
struct Magnitudes {
  double value = 0;
  double moment1 = 0;
  double moment2 = 0;
};
Magnitudes magnitudes_of(const BlockExtremes& extremes);

/// Proves from magnitudes alone that an update will write finite numbers only: the magnitudes after the last update are
/// known, and each update rule bounds how far one update can raise them.
class UpdateBounds {
 public:
  /// Returns upper bounds of a parameter's magnitudes after one update, given those before it and the largest unscaled,
  /// clipped gradient; infinity if the rule has no bound.
  using Rule =
      std::function<Magnitudes(const Magnitudes& before, double gradient, std::size_t slice, const StepInput& input)>;

  /// `parameters` must outlive the object.
  UpdateBounds(const FlatParameters& parameters, DType moment_dtype, Rule rule)
      : parameters_(parameters),
        moment_dtype_(moment_dtype),
        rule_(std::move(rule)),
        other_writes_(parameters.other_writes()) {}

  /// True if the bounds are valid for the next update, given the number of `updates` so far: the magnitudes are known,
  /// moments are f32, and no moments were loaded in the last 100 updates.
  bool apply(std::int64_t updates) const;
  /// Returns the magnitudes of each parameter after the last update; empty if they are unknown, also because something
  /// other than an update has written a value since.
  const std::vector<Magnitudes>& known() const;
  /// Stores the magnitudes after an update, unless something else has written a value since the last accept_writes().
  void remember(std::vector<Magnitudes> magnitudes);
  void forget() { known_.clear(); }
  /// Call it before an update that reads the values as they are now, while no other update is in flight.
  void accept_writes();
  /// Call it if moments were loaded after this number of `updates`. They may be results of other settings, which the
  /// rule's bounds do not cover, so the bounds do not apply to the next 100 updates.
  void distrust_moments(std::int64_t updates);

  /// Returns upper bounds of the magnitudes of parameter `slice` after an update whose largest unscaled gradient is
  /// `gradient`.
  Magnitudes after(const Magnitudes& before, std::size_t slice, double gradient, const StepInput& input) const;
  /// True if no magnitude of parameter `slice` exceeds `share` times the largest finite number of its dtype.
  bool within(const Magnitudes& magnitudes, std::size_t slice, double share = 1) const;
  /// Returns the largest finite number that both the dtype of the parameter and that of its 16-bit copy represent.
  double value_limit(std::size_t slice) const;
  /// Returns the largest finite number of the dtype of the moments.
  double moment_limit() const;
  /// Returns the largest power of two that is a safe gradient for the next update: the bounds after the update are
  /// within() `share`. Returns 0 if only a gradient of 0 is safe, and -1 if not even that is.
  double gradient_limit(std::size_t slice, const StepInput& input, double share) const;

 private:
  const FlatParameters& parameters_;
  DType moment_dtype_;
  Rule rule_;
  std::vector<Magnitudes> known_;
  std::uint64_t other_writes_;         // FlatParameters::other_writes() for which known_ holds
  std::int64_t distrusted_until_ = 0;  // number of updates after which the bounds apply again
};

}  // namespace binade::optim
