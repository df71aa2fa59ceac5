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

/// Reads a JSON file and checks, before any parser sees it, that it is UTF-8, at most `max_bytes` long and nested at
/// most `max_depth` deep. Throws DataError.
std::string read_json_text(const std::string& path, std::uint64_t max_bytes = std::uint64_t{64} << 20,
                           int max_depth = 32);

/// The same check for a JSON text that is already in memory; `name` says whose it is.
void check_json_limits(const std::string& text, const std::string& name, int max_depth = 32);

/// Names of the regular files in a folder (links followed; a second name of the same file left out, real names first),
/// ascending by byte value; names that begin with '.' are left out. Throws DataError when the folder cannot be read.
std::vector<std::string> list_files(const std::string& folder);

}  // namespace binade::io
