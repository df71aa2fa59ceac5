#pragma once

#include <string>

namespace binade::io {

/// Declares a section of checkpoints that this program can read. A section is the first word of its entries' names
/// ("model" of "model/head.weight"). The .cpp that writes the section defines one at namespace scope:
///
///   const io::CheckpointSection kSection = "sched";
///
/// A file of a newer minor format version loads without its undeclared sections, with a warning for each
/// (CheckpointInfo::left_out). Files of the same or an older version load whole.
class CheckpointSection {
 public:
  CheckpointSection(const char* name);  // NOLINT(google-explicit-constructor): a list of names makes a list of sections
};

/// Whether a CheckpointSection of this name exists.
bool is_known_section(const std::string& name);

}  // namespace binade::io
