#pragma once

#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/forecast.h"
#include "binade/amp/warnings/warning.h"

namespace binade::amp {

/// Warns that a tensor will leave the range of its dtype.
class OverflowAhead : public Forecast {
 public:
  static constexpr const char* kSection = "forecast";  ///< name of the state in checkpoints
  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found);
};

/// Warns that an operand will reach a singularity of its op.
class SingularityAhead : public Forecast {
 public:
  static constexpr const char* kSection = "poles";  ///< name of the state in checkpoints
  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found);
};

/// Warns that the entropy of an attention will fall below 1 % of the entropy of equal weights.
class CollapseAhead : public Forecast {
 public:
  static constexpr const char* kSection = "collapse";  ///< name of the state in checkpoints
  // Headroom is log2 of the relative entropy divided by 0.01, so 3 binades are an entropy of 0.08. Attention whose
  // entropy is lower from the start is reported only if the entropy falls further.
  CollapseAhead() : Forecast({.max_headroom = 3, .recovered = 1}) {}
  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found);
};

}  // namespace binade::amp
