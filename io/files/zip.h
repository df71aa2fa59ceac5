#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace binade::io {

/// A zip archive that is read by libzip: members that are stored or deflated, without a password. Each error text
/// begins with the name of the archive. The sizes that the archive states are checked before memory is allocated: the
/// compressed members together have at most the size of the archive, and none expands by more than deflate can.
class ZipReader {
 public:
  /// Reads an archive in memory, which must outlive the reader. Throws DataError if it is not one, or has two members
  /// of one name.
  ZipReader(std::span<const std::byte> archive, const std::string& name);
  /// Opens a regular file. Throws DataError that names it.
  explicit ZipReader(const std::string& path);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  const std::string& name() const { return name_; }  ///< name of the archive
  /// The names of the members, with their sizes in bytes.
  const std::map<std::string, std::uint64_t>& members() const { return sizes_; }
  /// True if there is a member of this name.
  bool contains(const std::string& member) const { return sizes_.contains(member); }
  /// Returns the bytes of a member. Throws DataError if there is none of this name, or its data or checksum are
  /// damaged.
  std::vector<std::byte> read(const std::string& member) const;

 private:
  struct Open;
  void list_members(std::uint64_t archive_bytes);

  std::string name_;
  std::unique_ptr<Open> open_;
  std::map<std::string, std::uint64_t> sizes_;
};

/// True if `bytes` begin as a zip archive does.
bool is_zip(std::string_view bytes);

/// Returns a zip archive of these members (name, bytes) in this order, deflated if `compress`, otherwise stored. The
/// time of each member is 1980-01-01, so that the same members give the same bytes. Throws StorageError.
std::vector<std::byte> encode_zip(const std::vector<std::pair<std::string, std::vector<std::byte>>>& members,
                                  bool compress);

}  // namespace binade::io
