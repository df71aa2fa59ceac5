#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace binade::io {

/// The bytes of a regular file (links are followed). Throws DataError naming the file when it is missing, is no regular
/// file, cannot be read, changes while it is read, or is larger than `max_bytes`.
std::string read_file(const std::string& path, std::uint64_t max_bytes = std::uint64_t{1} << 40);

/// Bytes of the regular file at `path` (links are followed). Throws DataError as read_file() does.
std::uint64_t regular_file_size(const std::string& path);

/// Names of the regular files in a folder (links followed; a second name of the same file left out, real names first),
/// ascending by byte value; names that begin with '.' are left out. Throws DataError when the folder cannot be read.
std::vector<std::string> list_files(const std::string& folder);

}  // namespace binade::io
