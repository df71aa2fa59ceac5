#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace binade::amp {

/// Finds ranks that are slower than the others in most steps. It only makes a message; no result depends on it.
class RankPace {
 public:
  static constexpr int kSteps = 50;       ///< number of steps after which ranks are judged
  static constexpr double kFactor = 1.5;  ///< a rank is slow in a step if it needs more than kFactor times the median
  static constexpr double kShare = 0.9;   ///< share of the steps in which a rank must be slow to be reported
  static constexpr double kLeast = 1e-3;  ///< seconds per micro-batch by which a slow rank must exceed the median

  /// Takes the seconds per micro-batch that each rank computed in a step, without waiting times. After every kSteps
  /// steps, returns a message that names the ranks that were slow in most of them; otherwise an empty text.
  std::string observe(std::span<const double> seconds);

 private:
  int steps_ = 0;
  std::vector<int> slow_{};     // steps in which a rank was slow, by rank
  std::vector<double> sums_{};  // seconds, by rank
  double median_sum_ = 0;
};

}  // namespace binade::amp
