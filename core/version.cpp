#include "binade/core/version.h"

#include "core/version_text.h"

namespace binade {

std::string_view version() { return kVersionText; }

std::string_view git_revision() { return kRevisionText; }

std::string build_id() {
  return std::string("binade ") + kVersionText + " (" + kRevisionText + ", " + kBuildText + ")";
}

}  // namespace binade
