#pragma once

#include <limits>
#include <string>

namespace binade::amp {

/// How far the largest result of an op stays from what its dtype cannot hold.
struct Headroom {
  double binades = std::numeric_limits<double>::infinity();  ///< log2(limit / largest); infinite: nothing was observed,
                                                             ///< or only zeros; -infinite: NaN or infinity
  std::string module{};
  std::string op{};
};

/// The least headroom over the ops of one module.
struct ModuleHeadroom {
  std::string module{};                                      ///< path; empty at the root
  double forward = std::numeric_limits<double>::infinity();  ///< as Headroom::binades
  double backward = std::numeric_limits<double>::infinity();
};

}  // namespace binade::amp
