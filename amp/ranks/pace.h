#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace binade::amp {

/// Finds a rank that is slower than the others again and again. Times decide nothing but a message.
class RankPace {
 public:
  static constexpr int kSteps = 50;       ///< steps of one judgement
  static constexpr double kFactor = 1.5;  ///< of the median: slower is slow
  static constexpr double kShare = 0.9;   ///< of the steps in which a slow rank was slow
  static constexpr double kLeast = 1e-3;  ///< seconds per micro-batch by which a slow rank is slower than the median

  /// Takes the seconds per micro-batch that each rank needed in a step without those in which it waited. After each
  /// kSteps steps, returns a message that names the ranks which were slow in most of them; otherwise an empty text.
  std::string observe(std::span<const double> seconds);

 private:
  int steps_ = 0;
  std::vector<int> slow_{};     // steps in which a rank was slow, by rank
  std::vector<double> sums_{};  // seconds, by rank
  double median_sum_ = 0;
};

}  // namespace binade::amp
