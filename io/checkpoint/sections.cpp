#include "binade/io/checkpoint/sections.h"

#include <set>

namespace binade::io {
namespace {

/// Constructed on first use, because objects of different files are constructed in any order.
std::set<std::string>& known() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

CheckpointSection::CheckpointSection(const char* name) { known().emplace(name); }

bool is_known_section(const std::string& name) { return known().contains(name); }

}  // namespace binade::io
