#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/io/files/file_ops.h"

namespace binade::io {

/// An open folder and what lies below it: a run folder, which may come from anybody. Every name ("samples/7.txt") is
/// reached from the open folder part by part, and no symbolic link is followed on the way or at the end, so that
/// nothing outside is read, cut or written. Files are made with mode 0600, folders as the umask says. Movable.
///
/// Functions throw StorageError that names the path and says what is wrong with it.
class FilesBelow {
 public:
  /// A person names the folder itself, by a link where that is how it is called.
  explicit FilesBelow(const std::string& path, FileOps& ops = FileOps::real());
  /// A folder that is open; `path` is for messages.
  FilesBelow(std::string path, FileHandle folder, FileOps& ops)
      : path_(std::move(path)), folder_(std::move(folder)), ops_(&ops) {}

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  int descriptor() const { return folder_.get(); }
  FileOps& ops() const { return *ops_; }

  /// Whether there is anything of that name, a link too.
  bool holds(const std::string& name) const;
  /// Names in a folder, sorted; none where there is no such folder.
  std::vector<std::string> names_in(const std::string& folder) const;
  /// A regular file of at most `limit` bytes; nothing where there is none of that name.
  std::optional<std::string> read(const std::string& name, std::uint64_t limit) const;
  /// The last bytes of a regular file, at most `most`; empty where there is none of that name.
  std::string read_end(const std::string& name, std::uint64_t most) const;
  /// Replaces a file as write_file_atomically() does; folders on the way are made.
  void replace(const std::string& name, std::span<const std::byte> bytes) const;
  /// A regular file to append to, made where it is missing. Folders on the way must be there.
  FileHandle append_to(const std::string& name) const;
  /// A new file to write to; nothing where the name is taken.
  std::optional<FileHandle> create(const std::string& name) const;

 private:
  enum class Missing { kStays, kIsMade };
  /// The folder that holds `name`, and its last part. 0 or errno.
  int walk(const std::string& name, Missing missing, FileHandle& folder, std::string& last) const;
  [[noreturn]] void refuse(const std::string& name, const char* doing, int error) const;
  std::optional<FileHandle> find_regular(const std::string& name, std::uint64_t& bytes) const;

  std::string path_;
  FileHandle folder_;
  FileOps* ops_;
};

}  // namespace binade::io
