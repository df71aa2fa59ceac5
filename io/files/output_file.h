#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace binade::io {

/// Writes a file that a person named: the target of an export, `--output`. A regular file, or a name that is free, gets
/// the bytes as a whole: written beside it, synced and renamed over. A file that was there keeps its mode, a file that
/// was not gets the umask's; symbolic links are followed. A device or a FIFO is opened and written to and stays what it
/// is. Throws StorageError naming the path.
void write_output_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace binade::io
