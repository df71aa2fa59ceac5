#include "binade/io/checkpoint/sections.h"

#include <set>

namespace binade::io {
namespace {

/// The registered names. Constructed on first use, because the order of construction across files is undefined.
std::set<std::string>& known() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

CheckpointSection::CheckpointSection(const char* name) { known().emplace(name); }

bool is_known_section(const std::string& name) { return known().contains(name); }

}  // namespace binade::io
