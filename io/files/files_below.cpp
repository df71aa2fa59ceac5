#include "binade/io/files/files_below.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "binade/core/error.h"

namespace binade::io {

FilesBelow::FilesBelow(const std::string& path, FileOps& ops)
    : path_(path), folder_(open_folder(ops, path)), ops_(&ops) {}

FilesBelow::Location FilesBelow::walk(const std::string& name, Missing missing) const {
  Opened folder = try_open(*ops_, &FileOps::open_folder_in, folder_.get(), ".");
  std::size_t begin = 0;
  for (std::size_t slash = name.find('/'); folder.error == 0 && slash != name.npos; slash = name.find('/', begin)) {
    const std::string part = name.substr(begin, slash - begin);
    begin = slash + 1;
    if (missing == Missing::kIsMade)
      if (const int error = ops_->create_folder_in(folder.handle.get(), part); error != 0 && error != EEXIST)
        return {error};
    folder = try_open(*ops_, &FileOps::open_folder_in, folder.handle.get(), part);
  }
  return {folder.error, std::move(folder.handle), name.substr(begin)};
}

void FilesBelow::refuse(const std::string& name, const char* doing, int error) const {
  const char* why = error == ELOOP     ? "; it is a symbolic link, and none is followed below a run folder"
                    : error == ENOTDIR ? "; a symbolic link in place of a folder is not followed either"
                    : error == EINVAL || error == EISDIR || error == ENXIO ? "; wanted a regular file"
                                                                           : "";
  throw StorageError(fmt::format("{}: cannot be {}: {}{}", path_of(name), doing, error_text(error), why));
}

bool FilesBelow::holds(const std::string& name) const {
  FileStatus status;
  const Location at = walk(name, Missing::kStays);
  int error = at.error;
  if (error == 0) error = ops_->status_of(at.folder.get(), at.name, status);
  if (error != 0 && error != ENOENT) refuse(name, "looked for", error);
  return error == 0;
}

std::vector<std::string> FilesBelow::names_in(const std::string& folder_name) const {
  std::vector<std::string> names;
  const Location at = walk(folder_name + "/", Missing::kStays);
  int error = at.error;
  if (error == 0) error = ops_->list(at.folder.get(), names);
  if (error != 0 && error != ENOENT) refuse(folder_name, "listed", error);
  return names;
}

std::optional<FileHandle> FilesBelow::find_regular(const std::string& name, std::uint64_t& bytes) const {
  const Location at = walk(name, Missing::kStays);
  Opened file{at.error};
  if (at.error == 0) file = try_open(*ops_, &FileOps::open_read, at.folder.get(), at.name);
  if (file.error == ENOENT) return std::nullopt;
  FileStatus status;
  if (file.error == 0) file.error = ops_->status(file.handle.get(), status);
  if (file.error == 0 && !status.regular) file.error = status.folder ? EISDIR : EINVAL;
  if (file.error != 0) refuse(name, "read", file.error);
  bytes = status.bytes;
  return std::move(file.handle);
}

std::optional<std::string> FilesBelow::read(const std::string& name, std::uint64_t limit) const {
  std::uint64_t bytes = 0;
  const std::optional<FileHandle> file = find_regular(name, bytes);
  if (!file) return std::nullopt;
  check<StorageError>(bytes <= limit, "{}: cannot be read: wanted at most {} bytes, got {}", path_of(name), limit,
                      bytes);
  std::string text(bytes, '\0');
  if (const int error = read_exactly(*ops_, file->get(), 0, std::as_writable_bytes(std::span(text))))
    refuse(name, "read", error);
  return text;
}

std::string FilesBelow::read_end(const std::string& name, std::uint64_t most) const {
  std::uint64_t bytes = 0;
  const std::optional<FileHandle> file = find_regular(name, bytes);
  if (!file) return "";
  const std::uint64_t count = std::min(bytes, most);
  std::string text(count, '\0');
  if (const int error = read_exactly(*ops_, file->get(), bytes - count, std::as_writable_bytes(std::span(text))))
    refuse(name, "read", error);
  return text;
}

void FilesBelow::replace(const std::string& name, std::span<const std::byte> bytes) const {
  const Location at = walk(name, Missing::kIsMade);
  int error = at.error;
  if (error == 0) error = write_file_atomically(*ops_, at.folder.get(), at.name, bytes);
  if (error != 0) refuse(name, "written", error);
}

FileHandle FilesBelow::append_to(const std::string& name) const {
  const Location at = walk(name, Missing::kStays);
  int error = at.error;
  if (error != 0) refuse(name, "opened to write", error);
  // O_NONBLOCK, so that a FIFO of that name is refused without waiting for a reader.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  FileHandle file(*ops_, ::openat(at.folder.get(), at.name.c_str(), kFlags, 0600));
  if (!file.open()) refuse(name, "opened to write", errno);
  FileStatus status;
  error = ops_->status(file.get(), status);
  if (error == 0 && !status.regular) error = EINVAL;
  if (error != 0) refuse(name, "opened to write", error);
  return file;
}

std::optional<FileHandle> FilesBelow::create(const std::string& name) const {
  const Location at = walk(name, Missing::kIsMade);
  Opened file{at.error};
  if (at.error == 0) file = try_open(*ops_, &FileOps::create_exclusive, at.folder.get(), at.name);
  if (file.error == EEXIST) return std::nullopt;
  if (file.error != 0) refuse(name, "created", file.error);
  return std::move(file.handle);
}

}  // namespace binade::io
