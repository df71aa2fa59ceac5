#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace binade::io {

/// Reads a regular file (links are followed). Throws DataError that names the file if it is missing, not regular,
/// cannot be read, changes while it is read, or is larger than `max_bytes`. If the file does not begin with `magic`,
/// only its first bytes are read and returned, and the decoder will refuse them.
std::string read_file(const std::string& path, std::uint64_t max_bytes = std::uint64_t{1} << 40,
                      std::string_view magic = {});

/// Returns the first `count` bytes of a regular file, fewer if it is shorter. Throws DataError as read_file().
std::string read_begin(const std::string& path, std::size_t count);

/// A regular file that is open for reading while the object exists (links are followed). Throws DataError as
/// read_file().
class RegularFile {
 public:
  explicit RegularFile(const std::string& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  int descriptor() const { return descriptor_; }
  /// Returns the size in bytes at the time of opening.
  std::uint64_t bytes() const { return bytes_; }

 private:
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// Returns the names of the regular files in a folder, ascending by byte value. Links are followed, but a file is
/// listed once, by its real name if it has one here; names that begin with '.' are omitted. Throws DataError if the
/// folder cannot be read.
std::vector<std::string> list_files(const std::string& folder);

}  // namespace binade::io
