#pragma once

#include <cstdint>

#include "binade/core/kernels/rearrange.h"

namespace binade {

/// Steps through the positions map(j), map(j + 1), …, without a division for each.
class AxisWalk {
 public:
  AxisWalk(const AxisMap& map, std::int64_t j)
      : map_(map), beyond_(map), start_(map.begin + j / map.window * map.step), within_(j % map.window) {
    beyond_.window = 1;
  }
  std::int64_t next() {
    const std::int64_t s = start_ + within_ * map_.inside;
    if (++within_ == map_.window) {
      within_ = 0;
      start_ += map_.step;
    }
    if (s >= 0 && s < map_.extent) return s;
    beyond_.begin = s;
    return beyond_(0);
  }

 private:
  const AxisMap& map_;
  AxisMap beyond_;  // applies the rule of `map` for positions outside of the axis
  std::int64_t start_, within_;
};

}  // namespace binade
