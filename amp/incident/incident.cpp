#include "binade/amp/incident/incident.h"

#include <array>
#include <ostream>

namespace binade::amp {

std::string_view name_of(RemedyAction action) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "none", "lower-scale", "promote-op", "quarantine-sample", "skip-batch", "rollback", "stop"};
  return kNames[static_cast<std::size_t>(action)];
}

std::ostream& operator<<(std::ostream& out, const Incident& incident) {
  return out << "step " << incident.step << ", attempt " << incident.attempt << ": " << incident.what << "; "
             << incident.remedy.what;
}

}  // namespace binade::amp
