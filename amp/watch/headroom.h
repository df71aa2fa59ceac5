#pragma once

#include <limits>
#include <string>

namespace binade::amp {

/// The smallest headroom over the ops of a step, and the op that has it.
struct Headroom {
  /// log2(limit of the dtype / largest magnitude). Infinite if no value or only zeros were observed; -infinite if a NaN
  /// or an infinity was observed.
  double binades = std::numeric_limits<double>::infinity();
  std::string module{};
  std::string op{};
};

/// The smallest headroom over the ops of one module.
struct ModuleHeadroom {
  std::string module{};                                       ///< path of the module; empty at the root
  double forward = std::numeric_limits<double>::infinity();   ///< headroom of results; values as in Headroom::binades
  double backward = std::numeric_limits<double>::infinity();  ///< headroom of gradients; values as in Headroom::binades
};

}  // namespace binade::amp
