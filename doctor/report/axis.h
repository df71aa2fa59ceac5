#pragma once

#include <string>
#include <vector>

#include "binade/doctor/report/series.h"

namespace binade::doctor::report {

enum class Scale { kLinear, kLog10, kLog2, kSteps };

struct Tick {
  double value = 0;
  std::string label{};
};

/// One axis of a chart: where a value lies on it, and which values are written beside it.
class Axis {
 public:
  /// Bounds that do not make a range are moved apart. Logarithmic scales want them > 0.
  Axis(Scale scale, double low, double high);
  /// Holds all points of the lines; `scale` left to the values: logarithmic where they span more than a factor of 30.
  static Axis around(const std::vector<Series>& lines);
  static Axis around(const std::vector<Series>& lines, Scale scale);

  /// 0 at the low end, 1 at the high end.
  double at(double value) const;
  /// About `count` round values inside.
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
