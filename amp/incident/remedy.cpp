#include "binade/amp/incident/remedy.h"

#include <array>

namespace binade::amp {

std::string_view name_of(RemedyAction action) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "none", "lower-scale", "promote-op", "quarantine-sample", "skip-batch", "rollback", "stop"};
  return kNames[static_cast<std::size_t>(action)];
}

}  // namespace binade::amp
