#pragma once

#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/forecast.h"
#include "binade/amp/warnings/warning.h"

namespace binade::amp {

/// Warns that a tensor will leave the range of its dtype.
class OverflowAhead : public Forecast {
 public:
  static constexpr const char* kSection = "forecast";
  void find(const CommittedStep& step, std::vector<Warning>& found);
};

/// Warns that an operand will reach a singularity of its op.
class SingularityAhead : public Forecast {
 public:
  static constexpr const char* kSection = "poles";
  void find(const CommittedStep& step, std::vector<Warning>& found);
};

/// Warns that the entropy of an attention will fall below 0.01 of that of equal probabilities.
class CollapseAhead : public Forecast {
 public:
  static constexpr const char* kSection = "collapse";
  // At 3 binades the entropy is 0.08. Attention that was sharper from the start is reported only if it gets sharper.
  CollapseAhead() : Forecast({.max_headroom = 3, .recovered = 1}) {}
  void find(const CommittedStep& step, std::vector<Warning>& found);
};

}  // namespace binade::amp
