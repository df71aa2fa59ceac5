#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace binade::io {

/// The bytes of a regular file (links are followed). Throws DataError naming the file when it is missing, is no regular
/// file, cannot be read, changes while it is read, or is larger than `max_bytes`. If the file does not begin with
/// `magic`, only these few bytes are read and returned, for the decoder to refuse.
std::string read_file(const std::string& path, std::uint64_t max_bytes = std::uint64_t{1} << 40,
                      std::string_view magic = {});

/// A regular file, open for reading during the object's lifetime (links are followed). Throws DataError as read_file()
/// does.
class RegularFile {
 public:
  explicit RegularFile(const std::string& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  int descriptor() const { return descriptor_; }
  /// Size in bytes when it was opened.
  std::uint64_t bytes() const { return bytes_; }

 private:
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// Names of the regular files in a folder (links followed; a second name of the same file left out, real names first),
/// ascending by byte value; names that begin with '.' are left out. Throws DataError when the folder cannot be read.
std::vector<std::string> list_files(const std::string& folder);

}  // namespace binade::io
