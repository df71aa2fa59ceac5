#pragma once

#include <string>
#include <vector>

#include "binade/doctor/report/series.h"

namespace binade::doctor::report {

/// Scale of an axis. kSteps is a linear scale for numbers of steps, with integers as labels.
enum class Scale { kLinear, kLog10, kLog2, kSteps };

/// A labeled value of an axis.
struct Tick {
  double value = 0;
  std::string label{};
};

/// One axis of a chart: maps values to positions and chooses the labeled values.
class Axis {
 public:
  /// Makes an axis from `low` to `high`. Bounds that are equal or too close are moved apart. A logarithmic scale
  /// requires bounds > 0.
  Axis(Scale scale, double low, double high);
  /// Makes an axis that contains all points of the lines. It is logarithmic if the values span more than a factor of
  /// 30.
  static Axis around(const std::vector<Series>& lines);
  /// Makes an axis with the given scale that contains all points of the lines.
  static Axis around(const std::vector<Series>& lines, Scale scale);

  /// Returns the position of a value: 0 at the low end, 1 at the high end.
  double at(double value) const;
  /// Returns about `count` round values within the bounds.
  std::vector<Tick> ticks(int count) const;
  Scale scale() const { return scale_; }
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  std::vector<Tick> linear_ticks(int count) const;
  std::vector<Tick> decade_ticks(int count) const;

  Scale scale_;
  double low_, high_;
};

}  // namespace binade::doctor::report
