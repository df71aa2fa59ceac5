#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace binade::io {

/// Writes a file that a person named: the target of an export, `--output`. A regular file or a free name gets the bytes
/// atomically: they are written to a temporary file beside it, synced and renamed over it. An existing file keeps its
/// mode, a new file gets the umask's; symbolic links are followed. A device or a FIFO is opened and written to, and is
/// not replaced. Throws StorageError naming the path.
void write_output_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace binade::io
