#pragma once

namespace binade {

/// Opens descriptors 0, 1 and 2 on /dev/null if the process was started without them. Otherwise the next files that it
/// opens would get these numbers, and messages would be written into those files. Runtime calls it, and programs call
/// it before they open their first file. Throws StorageError when /dev/null cannot be opened.
void open_standard_descriptors();

}  // namespace binade
