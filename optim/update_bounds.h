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
  /// Returns upper bounds after one update, given the largest unscaled, clipped gradient; infinity if the rule has
  /// none.
  using Rule = std::function<Magnitudes(const Magnitudes& before, double gradient, bool decays, double lr)>;

  /// `parameters` must outlive the object.
  UpdateBounds(const FlatParameters& parameters, DType moment_dtype, Rule rule)
      : parameters_(parameters), moment_dtype_(moment_dtype), rule_(std::move(rule)) {}

  /// True if the bounds apply to the update after `updates`: magnitudes are known, and the moments, in f32, are
  /// products of this rule's own updates.
  bool apply(std::int64_t updates) const;
  /// Magnitudes of each parameter after the last update. Empty if unknown.
  const std::vector<Magnitudes>& known() const { return known_; }
  void remember(std::vector<Magnitudes> magnitudes) { known_ = std::move(magnitudes); }
  void forget() { known_.clear(); }
  /// Moments were loaded after `updates`: they may come from other settings, so the bounds do not apply for a while.
  void distrust_moments(std::int64_t updates);

  /// Upper bounds of parameter `slice` after an update whose largest unscaled gradient is `gradient`.
  Magnitudes after(const Magnitudes& before, std::size_t slice, double gradient, const StepInput& input) const;
  /// True if the dtypes hold the magnitudes, within `share` of their largest numbers.
  bool within(const Magnitudes& magnitudes, std::size_t slice, double share = 1) const;
  /// Largest number that the value's dtype and its 16-bit copy hold; that a moment holds.
  double value_limit(std::size_t slice) const;
  double moment_limit() const;
  /// Largest gradient (a power of two) after which the bounds stay within `share`; -1 if not even 0 does.
  double gradient_limit(std::size_t slice, const StepInput& input, double share) const;

 private:
  const FlatParameters& parameters_;
  DType moment_dtype_;
  Rule rule_;
  std::vector<Magnitudes> known_;
  std::int64_t distrusted_until_ = 0;
};

}  // namespace binade::optim
