#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/io/files/file_ops.h"

namespace binade::io {

/// Access to the files below an open folder: a run folder, which may come from an untrusted source. Every name
/// ("samples/7.txt") is opened component by component from the open folder, and no symbolic link is followed, so that
/// no file outside is read, truncated or written. Files are created with mode 0600, folders with 0777 less the umask.
/// Movable.
///
/// Functions throw StorageError that names the path and the problem.
class FilesBelow {
 public:
  /// The folder's own path comes from the user and may be a symbolic link.
  explicit FilesBelow(const std::string& path, FileOps& ops = FileOps::real());
  /// Takes an open folder; `path` is for messages.
  FilesBelow(std::string path, FileHandle folder, FileOps& ops)
      : path_(std::move(path)), folder_(std::move(folder)), ops_(&ops) {}

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  int descriptor() const { return folder_.get(); }
  FileOps& ops() const { return *ops_; }

  /// True if `name` exists, even if it is a symbolic link.
  bool holds(const std::string& name) const;
  /// Returns the names in a folder, sorted; an empty list if the folder does not exist.
  std::vector<std::string> names_in(const std::string& folder) const;
  /// Reads a regular file of at most `limit` bytes; returns std::nullopt if it does not exist.
  std::optional<std::string> read(const std::string& name, std::uint64_t limit) const;
  /// Reads at most the last `most` bytes of a regular file; returns an empty text if it does not exist.
  std::string read_end(const std::string& name, std::uint64_t most) const;
  /// Replaces a file as write_file_atomically() does; creates missing folders.
  void replace(const std::string& name, std::span<const std::byte> bytes) const;
  /// Opens a regular file to append to, and creates it if it is missing. Its folder must exist.
  FileHandle append_to(const std::string& name) const;
  /// Creates a file to write to; returns std::nullopt if the name exists.
  std::optional<FileHandle> create(const std::string& name) const;

 private:
  enum class Missing { kStays, kIsMade };  ///< kIsMade: missing folders are created
  /// The place of a file: an open folder and the name in it.
  struct Location {
    int error = 0;  ///< 0 or errno; if not 0, the other members are incomplete
    FileHandle folder{};
    std::string name{};  ///< last component of the name, within `folder`
  };
  /// Opens the folder that holds `name`, and creates missing folders if `missing` is kIsMade.
  Location walk(const std::string& name, Missing missing) const;
  [[noreturn]] void refuse(const std::string& name, const char* doing, int error) const;
  std::optional<FileHandle> find_regular(const std::string& name, std::uint64_t& bytes) const;

  std::string path_;
  FileHandle folder_;
  FileOps* ops_;
};

}  // namespace binade::io
