#pragma once

namespace binade {

/// Opens descriptors 0, 1 and 2 on /dev/null if the process was started without them; otherwise the next files that it
/// opens would get these numbers and receive its messages. Runtime calls it, and programs call it before they open a
/// file. Throws StorageError if /dev/null cannot be opened.
void open_standard_descriptors();

}  // namespace binade
