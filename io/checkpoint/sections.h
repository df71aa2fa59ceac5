#pragma once

#include <string>

namespace binade::io {

/// States that this program knows a section of checkpoints: the first word of the names of its entries ("model" of
/// "model/head.weight"). The .cpp that writes the section has one object of it outside of all functions:
///
///   const io::CheckpointSection kSection = "sched";
///
/// A load leaves out sections that nobody states only if the file's minor format version is newer than this program's;
/// it then gives a warning each (CheckpointInfo::left_out). Files of the same or an older version load whole.
class CheckpointSection {
 public:
  CheckpointSection(const char* name);  // NOLINT(google-explicit-constructor): a list of names makes a list of sections
};

/// Whether some CheckpointSection has this name.
bool is_known_section(const std::string& name);

}  // namespace binade::io
