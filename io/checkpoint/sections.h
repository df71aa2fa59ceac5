#pragma once

#include <string>

namespace binade::io {

/// Registers a section of checkpoints that this program can read. A section is the first component of the names of its
/// entries ("model" of "model/head.weight"). The .cpp that writes a section defines an object at namespace scope:
///
///   const io::CheckpointSection kSection = "sched";
///
/// A file of a newer minor format version is loaded without the sections that are not registered, with a warning for
/// each (CheckpointInfo::left_out). Files of the same or an older version are loaded completely.
class CheckpointSection {
 public:
  CheckpointSection(const char* name);  // NOLINT(google-explicit-constructor): names may initialize an array
};

/// True if a CheckpointSection of this name exists.
bool is_known_section(const std::string& name);

}  // namespace binade::io
