#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace binade::io {

/// Writes a file that the user named: the target of an export, `--output`. A regular file or a new name is written
/// atomically: bytes go to a temporary file in the same folder, which is synced and renamed. An existing file keeps its
/// mode, a new file gets 0666 less the umask; symbolic links are followed. A device or a FIFO is opened and written to,
/// not replaced. Throws StorageError that names the path.
void write_output_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace binade::io
