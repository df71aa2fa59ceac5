#pragma once

namespace binade {

/// Opens descriptors 0, 1 and 2 on /dev/null where the process was started without them: the next files that it opens
/// would get their numbers, and what is written for people would go into those. Called before a program's first file
/// and by Runtime. Throws StorageError when /dev/null cannot be opened.
void open_standard_descriptors();

}  // namespace binade
